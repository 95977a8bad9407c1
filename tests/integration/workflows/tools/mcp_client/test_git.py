"""The public mcp-server-git on a real repository, down to the release notes of the demo."""

from pathlib import Path
from typing import Any

import pytest

from workflows.common import background_loop
from workflows.engine.protocol.ports import TaskFailed
from workflows.tools import ToolContext, call_sync, get
from workflows.tools.gitlog import read_diff, read_log
from workflows.tools.mcp_client import McpServerSpec, pool

from .conftest import git


def ask(spec: McpServerSpec, tool: str, **arguments: Any) -> str:
    answer = background_loop.run(pool().call(spec, tool, arguments), 60)
    assert isinstance(answer, str)
    return answer


def numbers(repo: Path, target: str) -> dict[str, tuple[int, int]]:
    """What git itself counts: lines added and removed per path."""
    rows = git(repo, "diff", "--numstat", "--no-renames", "-z", target).split("\0")
    cells = [row.split("\t", 2) for row in rows if row]
    return {
        path: (0, 0) if added == "-" else (int(added), int(removed))
        for added, removed, path in cells
    }


@pytest.fixture
def busy_repo(repo: Path) -> Path:
    """A second and a third commit with everything that makes a diff hard to read."""
    (repo / "gone.txt").write_text("a\nb\n")
    (repo / "with space.txt").write_text("x\n" * 30)
    (repo / "binary").write_bytes(bytes(range(256)))
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "chore(deps): add files")
    (repo / "gone.txt").unlink()
    (repo / "with space.txt").write_text("x\n" * 10 + "--- a/fake\n+++ b/fake\n" + "x\n" * 19)
    (repo / "binary").write_bytes(bytes(range(255, -1, -1)))
    (repo / 'odd "näme"\t.txt').write_text("no newline at the end")
    (repo / "patch.diff").write_text(
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
        "\\ No newline at end of file\n"
    )
    (repo / "readme.txt").write_text("one\ntwo")
    (repo / "empty").touch()
    git(repo, "add", ".")
    message = "fix!: many things\n\nCommit: not one\nAuthor: nobody\n\nBREAKING CHANGE: yes\n"
    git(repo, "commit", "--quiet", "-m", message, "--author", "Zoë <z@example.com>")
    return repo


def test_the_server_lists_its_tools(git_spec: McpServerSpec) -> None:
    tools = {tool.name: tool for tool in background_loop.run(pool().list_tools(git_spec), 60)}
    assert tools["git_log"].read_only is True
    assert tools["git_reset"].destructive is True
    assert tools["git_commit"].idempotent is False
    assert "repo_path" in tools["git_diff"].input_schema["required"]


def test_one_commit_is_shown(git_spec: McpServerSpec, repo: Path) -> None:
    log = ask(git_spec, "git_log", repo_path=str(repo))
    assert [(commit.kind, commit.subject) for commit in read_log(log)] == [("feat", "start")]
    diff = ask(git_spec, "git_diff", repo_path=str(repo), target="HEAD")
    assert read_diff(diff) == []
    with pytest.raises(TaskFailed, match=r"git_diff: .*HEAD~1"):
        ask(git_spec, "git_diff", repo_path=str(repo), target="HEAD~1")


def test_paths_outside_of_the_repository_are_refused(
    git_spec: McpServerSpec, tmp_path: Path
) -> None:
    with pytest.raises(TaskFailed, match="outside the allowed repository"):
        ask(git_spec, "git_log", repo_path=str(tmp_path))


def test_the_diff_is_counted_as_git_counts_it(git_spec: McpServerSpec, busy_repo: Path) -> None:
    for target in ("HEAD~1", "HEAD~2"):
        diff = ask(git_spec, "git_diff", repo_path=str(busy_repo), target=target)
        counted = {file.path: (file.added, file.removed) for file in read_diff(diff)}
        assert counted == numbers(busy_repo, target)
    statuses = {file.path: file.status for file in read_diff(diff)}
    assert statuses["empty"] == statuses["binary"] == "added"
    assert statuses["readme.txt"] == "modified"


def test_renames_are_counted(git_spec: McpServerSpec, busy_repo: Path) -> None:
    git(busy_repo, "mv", "with space.txt", "moved ünder.txt")
    diff = ask(git_spec, "git_diff", repo_path=str(busy_repo), target="HEAD")
    assert [(file.path, file.status) for file in read_diff(diff)] == [
        ("moved ünder.txt", "renamed")
    ]


def test_release_notes_of_a_real_repository(git_spec: McpServerSpec, busy_repo: Path) -> None:
    log = ask(git_spec, "git_log", repo_path=str(busy_repo), max_count=10)
    diff = ask(git_spec, "git_diff", repo_path=str(busy_repo), target="HEAD~2")
    draft = get("demo.draft_release_notes")
    assert draft is not None
    notes = call_sync(draft, {"log": log, "diff": diff, "title": "Now"}, ToolContext())
    assert notes["commits"] == 3
    assert notes["sections"] == {"Breaking changes": 1, "New": 1, "Build and upkeep": 1}
    assert {person["name"] for person in notes["contributors"]} == {"Ada", "Zoë"}
    assert "- many things (" in notes["markdown"]
    assert "| with space.txt | added | 31 | 0 |" in notes["markdown"]
