"""Files that a run writes, laid out as a git repository, execute nothing when git reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workflows.demo.setup import ensure_git_server
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import Execution
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool

from .conftest import git

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def files(tmp_path: Path, repo: Path, settings: Any) -> Iterator[Path]:
    """The folder of the file tools, with the git server as the demo starts it."""
    folder = tmp_path / "files"
    folder.mkdir()
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "file_root": folder,
        "demo_repository": str(repo),
        "home": tmp_path / "home",
    }
    ensure_git_server()
    results = {each.server: each for each in catalogue_sync.sync_all()}
    assert not results["git"].error
    yield folder
    close_pool()


def call(name: str, tool: str, *needs: str, **arguments: Any) -> dict[str, Any]:
    return {
        "id": name,
        "type": "tool",
        "tool": tool,
        "arguments": arguments,
        "depends_on": list(needs),
    }


def run(*tasks: dict[str, Any]) -> Execution:
    return run_to_rest(start_execution(actor=None, plan={"tasks": list(tasks)}).pk)


def test_a_repository_that_a_run_writes_executes_nothing(files: Path, tmp_path: Path) -> None:
    """Four written files are a bare repository, whose configuration names a command."""
    mark, root = tmp_path / "executed", files / "repo"
    config = (
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        f'\tworktree = {root}\n\tfsmonitor = "id > {mark}; false"\n'
    )
    written = {
        "HEAD": "ref: refs/heads/main\n",
        "config": config,
        "objects/info/x": "",
        "refs/heads/.keep": "",
    }
    writes = [
        call(f"w{number}", "builtin.write_file", path=f"repo/{name}", content=text)
        for number, (name, text) in enumerate(written.items())
    ]
    names = [write["id"] for write in writes]
    execution = run(*writes, call("read", "git.git_status", *names, repo_path=str(root)))
    assert not mark.exists(), f"{execution.status}, executed: {mark.read_text()}"
    assert execution.status == "FAILED"
    refused = execution.attempts.get(task_id="read", settled=True)
    assert "outside the allowed repository" in refused.error


def test_the_demos_server_reads_no_other_repository(
    files: Path, repo: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(repo), str(other))
    execution = run(call("read", "git.git_log", repo_path=str(other)))
    assert execution.status == "FAILED", execution.attempts.get(settled=True).output
