"""Speculation of the tool that past runs predict, where an agent may replan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from graphrag.models import Tool
from tests.integration.workflows.conftest import Engine, value
from tests.integration.workflows.speculation.test_speculation import outcomes, paused, states
from tests.support.learning import learn
from workflows.models import Execution

AGENT = {
    "speculation": {"enabled": True},
    "per_layer_validation": True,
    "validate_last_layer": True,
}
XML = "<a><b>1</b></a>"


def learned(*layers: Sequence[str], runs: int = 8) -> None:
    """Runs that had these tools, layer by layer."""
    for number in range(runs):
        learn(execution_key=f"{layers} {number}", layers=list(layers))


ECHO = {"id": "hello", "type": "tool", "tool": "builtin.echo", "arguments": {"value": "hello"}}


def resting(engine: Engine, *others: dict[str, Any], **more: Any) -> Execution:
    """A run that waits for its agent after its last layer; its plan calls the server `builtin`."""
    tasks = others or (ECHO, value("text", XML))
    execution = paused(engine, *tasks, policy={**AGENT, **more}, inputs={"text": XML})
    assert execution.status == "AWAITING_AGENT"
    return execution


def test_the_predicted_tool_is_there_when_the_agent_asks_for_it(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    execution = resting(engine)
    (name,) = states(execution)
    assert states(execution) == {name: "READY"}
    engine.command(execution, {"kind": "replan", "new_requirement": "parse XML"})
    execution = engine.drive(execution)
    assert outcomes(execution) == [("hit", name)]
    assert execution.attempts.get(task_id=name).status == "SUCCEEDED"


def test_a_predicted_tool_is_no_part_of_the_plan(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    execution = resting(engine)
    engine.command(execution, {"kind": "continue"})
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert set(engine.statuses(execution)) == {"hello", "text"}
    assert outcomes(execution) == []


@pytest.mark.parametrize("runs", [0, 1])
def test_little_evidence_predicts_nothing(engine: Engine, runs: int) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"], runs=runs)
    assert states(resting(engine)) == {}


def test_only_a_read_only_tool_is_computed(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    Tool.objects.filter(name="builtin.parse_xml").update(read_only=False)
    assert states(resting(engine)) == {}


def test_without_the_policy_nothing_is_predicted(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    assert states(resting(engine, speculation={"enabled": False})) == {}


def test_a_tool_of_a_server_that_the_plan_does_not_call_is_not_computed(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    assert states(resting(engine, value("text", XML))) == {}


def test_an_open_world_tool_is_not_computed(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    Tool.objects.filter(name="builtin.parse_xml").update(open_world=True)
    assert states(resting(engine)) == {}


def test_nothing_is_predicted_where_people_review_plan_changes(engine: Engine) -> None:
    learned(["testkit.value"], ["builtin.parse_xml"])
    assert states(resting(engine, replan_review=True)) == {}
