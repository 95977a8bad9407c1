"""The discovery story: an agent finds XML files, replans, and a person signs the last layer."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.workflows.conftest import Engine, source
from tests.support.run_files import put_in_next_runs
from workflows.models import Execution

XML = "<notes><note>first</note></notes>"

RULES = {
    "rules": [
        {
            "when": "results.list.output.files[?ends_with(@, '.xml')]",
            "decision": "replan",
            "requirement": "parse XML files",
            "reason": "the directory holds XML files",
        }
    ]
}
POLICY = {
    "ail": {"enabled": True, "agent": "rules", "settings": RULES},
    "hil": {"enabled": True, "approval_required": "critical_only"},
}


def tool(name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": f"builtin.{tool}", "arguments": arguments}


@pytest.fixture
def discovered(engine: Engine, settings: Any, tmp_path: Path) -> Execution:
    """The run when the person is asked, before the layer that writes."""
    put_in_next_runs(tmp_path, {"notes.xml": XML, "data.json": '{"n": 1}'})
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    execution = engine.run(
        tool("list", "list_directory", path="."),
        tool("json", "read_file", path="data.json") | {"depends_on": ["list"]},
        tool("text", "select", value=source("json"), expression="@") | {"depends_on": ["json"]},
        tool("write", "write_file", path="out.txt", content="done") | {"depends_on": ["text"]},
        policy=POLICY,
    )
    assert execution.status == "PAUSED_FOR_REVIEW", execution.error
    return execution


def parsers(execution: Execution) -> list[tuple[str, int, str]]:
    revised = execution.events.get(kind="plan_revised")
    rows = execution.attempts.filter(task_id__in=revised.payload["added"])
    return [(row.task_id, row.layer, row.status) for row in rows.order_by("layer")]


def test_the_xml_tool_joins_the_plan_and_runs_beside_the_json_one(discovered: Execution) -> None:
    found = parsers(discovered)
    assert {status for _, _, status in found} == {"SUCCEEDED"}
    # Reading the XML file runs in the layer of its sibling, which reads the JSON file.
    assert discovered.attempts.get(task_id="json").layer == 1
    assert found[0][1] == 1
    begun = discovered.events.get(kind="layer_started", payload__layer=1).payload["tasks"]
    assert set(begun) == {"json", found[0][0]}
    outputs = [str(row.output) for row in discovered.attempts.filter(task_id=found[-1][0])]
    assert "first" in outputs[0]
    decided = discovered.events.get(kind="agent_decided", payload__decision="replan")
    assert decided.payload["reason"] == "the directory holds XML files"


def test_the_person_approves_the_last_layer(engine: Engine, discovered: Execution) -> None:
    (hold,) = engine.holds(discovered)
    assert hold.reason == "layer_approval"
    assert "write" in hold.payload["summary"]
    engine.decide(hold)
    assert engine.drive(discovered).status == "COMPLETED"


def test_the_person_rejects_the_last_layer(
    engine: Engine, discovered: Execution, tmp_path: Path
) -> None:
    engine.decide(engine.holds(discovered)[0], approved=False)
    assert engine.drive(discovered).status == "ABORTED"
    assert not list(tmp_path.rglob("out.txt"))
