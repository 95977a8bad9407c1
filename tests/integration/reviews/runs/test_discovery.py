"""A discovery run on real MCP servers and files: tools found by an agent join the plan."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.reviews.conftest import MakeUser, decide
from tests.integration.workflows.executions import files_server
from tests.support.pages import open_page
from tests.support.tool_servers import copied
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import Execution, Hold, McpServer
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

RULES = {
    "rules": [
        {
            "when": "results.folder.output.files[?ends_with(@, '.xml')]",
            "decision": "replan",
            "requirement": "parse XML files",
            "reason": "the folder holds XML files",
        }
    ]
}
AGENT = {"ail": {"enabled": True, "agent": "rules", "settings": RULES}}


def task(name: str, tool: str, *needs: str, **arguments: Any) -> dict[str, Any]:
    waits = {"depends_on": list(needs)} if needs else {}
    return {"id": name, "type": "tool", "tool": tool, "arguments": arguments, **waits}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder under version control with a JSON and an XML file."""
    (tmp_path / "data.json").write_text('{"n": 1}')
    (tmp_path / "notes.xml").write_text("<notes><note>first</note></notes>")
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "Files"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture
def tool_servers(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The public servers for git and time, and one of our own for files, in the catalogue."""
    program = copied(Path(files_server.__file__), tmp_path_factory.mktemp("program"))
    own = [program, str(folder)]
    for name, args in (
        ("files", own),
        ("git", ["-m", "mcp_server_git"]),
        ("time", ["-m", "mcp_server_time"]),
    ):
        paths = [program, str(folder)]
        McpServer.objects.create(name=name, command=sys.executable, args=args, read_paths=paths)
    synced = catalogue_sync.sync_all()
    assert all(not each.error and each.tools for each in synced), synced
    yield
    close_pool()


def start(folder: Path, actor: User, **policy: Any) -> Execution:
    plan = {
        "tasks": [
            task("folder", "files.list_folder", path="."),
            task("log", "git.git_log", repo_path=str(folder), max_count=5),
            task("json", "files.parse_json_file", "folder", path="data.json"),
            task("now", "time.get_current_time", "json", timezone="Europe/Berlin"),
        ]
    }
    execution = start_execution(actor=actor, plan=plan, policy={**AGENT, **policy})
    return run_to_rest(execution.pk)


def started_with(execution: Execution, layer: int) -> set[str]:
    """The tasks that a layer began side by side."""
    event = execution.events.get(kind="layer_started", payload__layer=layer)
    return set(event.payload["tasks"])


def test_the_xml_tool_appears_and_runs_beside_the_json_one(
    tool_servers: None, folder: Path, make_user: MakeUser
) -> None:
    operator, reviewer = make_user("operator", "operator"), make_user("reviewer", "reviewer")
    done = start(folder, operator)
    assert done.status == "COMPLETED", (done.error, done.events.values_list("kind", "payload"))
    revised = done.events.get(kind="plan_revised").payload
    (name,) = revised["added"]
    assert revised["why"][name]["tool"] == "files.parse_xml_file"
    ran = {row.task_id: row for row in done.attempts.all()}
    assert ran[name].layer == ran["json"].layer == 1
    assert started_with(done, 1) == {"json", name}
    assert ran[name].output["value"] == {"tag": "notes", "texts": ["first"]}
    assert ran["json"].output["value"] == {"n": 1}
    assert "Files" in str(ran["log"].output)

    run = open_page(operator, f"/runs/{done.pk}/")
    assert "agent rules decided replan: the folder holds XML files" in run.text
    assert f"/runs/{done.pk}/plan/2/" in run.links
    change = open_page(operator, f"/runs/{done.pk}/plan/2/")
    assert "files.parse_xml_file" in change.text
    assert len(change.texts("svg.dag")) == 1
    assert "matches '" in change.text

    # The same with a person between the finding and the change.
    held = start(folder, operator, replan_review=True)
    (hold,) = held.holds.filter(status=Hold.Status.OPEN)
    assert hold.reason == "replan_review"
    assert set(held.attempts.values_list("task_id", flat=True)) == {"folder", "log"}
    decide(hold, reviewer)
    done = run_to_rest(held.pk)
    assert done.status == "COMPLETED", done.error
    assert done.attempts.get(task_id=name).layer == done.attempts.get(task_id="json").layer == 1
    assert started_with(done, 1) == {"json", name}
