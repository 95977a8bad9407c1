"""Layer approvals, agents, validation: when each is called, and the effect of its answer."""

from typing import Any, cast

import pytest
from django.db.models.functions import Now

from tests.integration.workflows.conftest import Engine, source, value
from tests.support.actors import actor_named
from workflows import agents
from workflows.engine.protocol.commands import AddMessage
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion
from workflows.executions.recovery import expire_agent_holds
from workflows.executions.services import submit_command
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, Hold


def chain(*tools: str) -> list[dict[str, Any]]:
    tasks = []
    for number, tool in enumerate(tools):
        needs = {"depends_on": [f"t{number - 1}"]} if number else {}
        tasks.append(value(f"t{number}", number, **needs) | {"tool": f"testkit.{tool}"})
    return tasks


def approvals(engine: Engine, execution: Execution) -> int:
    count = 0
    while execution.status == "PAUSED_FOR_REVIEW":
        (hold,) = engine.holds(execution)
        assert hold.reason == "layer_approval"
        engine.decide(hold)
        count += 1
        execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    return count


@pytest.mark.parametrize(
    ("required", "expected"), [("always", 3), ("critical_only", 1), ("never", 0)]
)
def test_the_policy_decides_which_layers_are_approved(
    engine: Engine, required: str, expected: int
) -> None:
    policy = {"hil": {"enabled": True, "approval_required": required}}
    execution = engine.run(*chain("value", "effect", "value"), policy=policy)
    assert approvals(engine, execution) == expected


def test_a_side_effects_flag_does_not_make_a_layer_critical(engine: Engine) -> None:
    policy = {"hil": {"enabled": True, "approval_required": "critical_only"}}
    tasks = [each | {"sideEffects": True} for each in chain("value", "value")]
    assert engine.run(*tasks, policy=policy).status == "COMPLETED"


def test_a_rejected_layer_aborts_the_run(engine: Engine) -> None:
    policy = {"hil": {"enabled": True}}
    execution = engine.run(*chain("value"), policy=policy)
    engine.decide(engine.holds(execution)[0], approved=False)
    assert engine.drive(execution).status == "ABORTED"
    assert engine.called(execution) == []


def test_validation_pauses_after_each_layer_except_the_last(engine: Engine) -> None:
    execution = engine.run(*chain("value", "value", "value"), policy={"per_layer_validation": True})
    rests = 0
    while execution.status == "AWAITING_AGENT":
        rests += 1
        (hold,) = engine.holds(execution)
        assert hold.payload["options"] == ["continue", "replan", "abort"]
        engine.command(execution, {"kind": "continue"})
        execution = engine.drive(execution)
    assert (rests, execution.status) == (2, "COMPLETED")


RULES = {
    "rules": [
        {"when": "results.t0.output > `5`", "decision": "abort", "reason": "too much"},
        {"when": "layer == `0`", "decision": "continue"},
    ]
}


def with_rules(**more: Any) -> dict[str, Any]:
    return {"ail": {"enabled": True, "agent": "rules", "settings": RULES, **more}}


def test_a_rule_agent_decides_between_layers(engine: Engine) -> None:
    calm = engine.run(*chain("value", "value"), policy=with_rules())
    assert calm.status == "COMPLETED"
    assert engine.kinds(calm).count("agent_decided") == 2
    loud = engine.run(value("t0", 9), value("t1", source("t0")), policy=with_rules())
    assert (loud.status, loud.error) == ("ABORTED", "too much")
    assert engine.called(loud) == ["t0"]


def test_on_error_calls_the_agent_only_after_a_failure(engine: Engine) -> None:
    policy = with_rules(decision_points="on_error")
    fine = engine.run(*chain("value", "value"), policy=policy)
    assert "agent_decided" not in engine.kinds(fine)
    bad = {"id": "bad", "type": "tool", "tool": "testkit.fail", "arguments": {"message": "x"}}
    failed = engine.run(bad, value("t1"), policy=policy)
    assert engine.kinds(failed).count("agent_decided") == 1


def test_manual_calls_the_agent_once_per_request(engine: Engine) -> None:
    policy = with_rules(decision_points="manual")
    tasks = chain("value", "value", "value")
    assert "agent_decided" not in engine.kinds(engine.run(*tasks, policy=policy))
    asked = engine.start(*tasks, policy=policy)
    command = AddMessage(content="look at this", ask_agent=True)
    submit_command(execution_id=asked.pk, command=command, actor=actor_named("ann"), source="test")
    assert engine.drive(asked).status == "COMPLETED"
    kinds = engine.kinds(asked)
    assert kinds.count("agent_requested") == kinds.count("agent_decided") == 1
    assert kinds.index("agent_decided") < kinds.index("layer_started", kinds.index("layer_closed"))


def test_without_an_agent_a_call_is_refused(engine: Engine) -> None:
    execution = engine.start(value("a"))
    command = AddMessage(content="look at this", ask_agent=True)
    with pytest.raises(Refused, match="No agent decides"):
        submit_command(
            execution_id=execution.pk, command=command, actor=actor_named("ann"), source="test"
        )
    assert engine.kinds(execution) == []


class Broken:
    in_process = True

    def decide(self, question: AgentQuestion) -> AgentAnswer:
        raise KeyError("decision")


def test_a_malformed_answer_continues_with_a_reason(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.register("broken", Broken())
    policy = {"ail": {"enabled": True, "agent": "broken"}}
    execution = engine.run(*chain("value", "value"), policy=policy)
    assert execution.status == "COMPLETED"
    assert engine.kinds(execution).count("agent_failed") == 2


class Says:
    """An agent that answers whatever it is given."""

    in_process = True

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def decide(self, question: AgentQuestion) -> AgentAnswer:
        return cast("AgentAnswer", self.answer)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"decision": "continue"},
        AgentAnswer(decision=cast("Any", "perhaps")),
        AgentAnswer(decision="continue", reason=cast("Any", 7)),
        AgentAnswer(decision="continue", reason="a NUL \0"),
        AgentAnswer(decision="continue", messages=({"role": "robot", "content": "hello"},)),
        AgentAnswer(decision="continue", messages=({"role": "assistant", "content": ""},)),
        AgentAnswer(decision="abort", reason="long " * 1000),
        AgentAnswer(decision="replan", requirement="long " * 1000),
        AgentAnswer(decision="replan", requirement="x", available_context={"k": float("nan")}),
    ],
    ids=[
        "nothing",
        "no answer's shape",
        "no such decision",
        "a number as reason",
        "NUL",
        "role",
        "empty message",
        "long reason",
        "long requirement",
        "not finite",
    ],
)
def test_an_empty_answer_continues_with_a_reason(engine: Engine, answer: Any) -> None:
    agents.register("says", Says(answer))
    policy = {"ail": {"enabled": True, "agent": "says"}}
    execution = engine.run(*chain("value", "value"), policy=policy)
    assert execution.status == "COMPLETED"
    assert engine.kinds(execution).count("agent_failed") == 2
    assert "agent_decided" not in engine.kinds(execution)


def test_an_external_agent_answers_by_command(engine: Engine) -> None:
    policy = {"ail": {"enabled": True, "agent": "external"}}
    execution = engine.run(*chain("value", "value"), policy=policy)
    assert execution.status == "AWAITING_AGENT"
    assert engine.holds(execution)[0].payload["results"]["t0"]["status"] == "SUCCEEDED"
    engine.command(execution, {"kind": "continue", "reason": "looks fine"})
    assert engine.drive(execution).status == "COMPLETED"


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ({"ail": {"enabled": True}}, "COMPLETED"),
        ({"per_layer_validation": True}, "ABORTED"),
    ],
)
def test_an_agent_that_never_answers_times_out(
    engine: Engine, policy: dict[str, Any], status: str
) -> None:
    execution = engine.run(*chain("value", "value"), policy=policy)
    assert expire_agent_holds() == 0
    Hold.objects.filter(execution=execution).update(expires_at=Now())
    assert expire_agent_holds() == 1
    assert expire_agent_holds() == 0
    assert engine.drive(execution).status == status


def test_an_override_is_merged_into_the_workflow_and_checked(engine: Engine) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.start(value("a"), policy={"hil": {"enabled": "perhaps"}})
    assert caught.value.problems[0].path == "policy.hil.enabled"
    with pytest.raises(InvalidRequest, match="no agent is registered"):
        engine.start(value("a"), policy={"ail": {"enabled": True, "agent": "nobody"}})
