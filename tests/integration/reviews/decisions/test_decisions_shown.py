"""Decisions on holds, in events, in the list of decisions, and in the data of agents."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from mcp import Client as McpClient
from rest_framework.test import APIClient

from reviews.decisions import services, withdrawal
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.actors import actor_named
from tests.support.groups import group_of
from workflows.agents import registry
from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import fork_execution, parse_command, submit_command
from workflows.mcp_server.authentication import authenticate_caller
from workflows.mcp_server.server import build_server
from workflows.models import Execution, Hold
from workflows.permissions.tokens import create_token
from workflows.realtime.event_serialization import wire_events

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


def api(user: User) -> APIClient:
    _, text = create_token(user=user, name="t", scopes=["read", "run", "decide"])
    return APIClient(headers={"Authorization": f"Bearer {text}"})


def body(user: User, execution: Execution) -> dict[str, Any]:
    return dict(api(user).get(f"/api/v1/executions/{execution.pk}/").json())


def decisions(user: User, execution: Execution) -> list[dict[str, Any]]:
    answer = api(user).get(f"/api/v1/executions/{execution.pk}/decisions/")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


def decide(execution: Execution, user: User, decision: str = "APPROVE", **more: Any) -> None:
    services.decide(
        services.DecisionRequest(
            hold_id=only_hold(execution).id,
            user=user,
            decision=decision,
            version=Execution.objects.get(pk=execution.pk).version,
            source="test",
            **more,
        )
    )


def pick(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# --- holds and events -----------------------------------------------------------------------------


def test_a_hold_says_how_it_was_decided(start: Start, reviewer: User) -> None:
    execution = start(echo("a", "draft", phase=AFTER))
    (hold,) = body(reviewer, execution)["holds"]
    names = ("decision", "comment", "reviewer", "edited", "decided_by")
    assert pick(hold, *names) == ("", "", None, False, "")
    decide(execution, reviewer, edits="better", comment="shorter")
    (hold,) = body(reviewer, execution)["holds"]
    assert pick(hold, *names) == ("APPROVE", "shorter", "reviewer", True, "reviewer")


def test_a_secret_in_a_comment_is_masked(start: Start, reviewer: User) -> None:
    execution = start(echo("a", "draft", phase=AFTER))
    decide(execution, reviewer, comment="use password=hunter2hunter2 instead")
    (hold,) = body(reviewer, execution)["holds"]
    (row,) = decisions(reviewer, execution)
    for comment in (hold["comment"], row["comment"]):
        assert comment.startswith("use password=")
        assert "hunter2" not in comment


def test_a_withdrawn_decision_is_no_decision_of_the_hold(start: Start, reviewer: User) -> None:
    execution = start(echo("a", "draft", phase=AFTER))
    decide(execution, reviewer, comment="yes", undo_seconds=60)
    (hold,) = body(reviewer, execution)["holds"]
    assert pick(hold, "decision", "comment", "reviewer") == ("APPROVE", "yes", "reviewer")
    withdrawal.withdraw(hold_id=hold["id"], user=reviewer, source="test")
    (hold,) = body(reviewer, execution)["holds"]
    assert pick(hold, "decision", "comment", "reviewer", "edited") == ("", "", None, False)


def test_a_timeout_has_no_reviewer(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=AFTER, timeout_seconds=60, on_timeout="reject"))
    Hold.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert services.expire_due() == 1
    (hold,) = body(reviewer, execution)["holds"]
    assert pick(hold, "decision", "reviewer", "decided_by") == ("REJECT", None, "system")
    (row,) = decisions(reviewer, execution)
    assert pick(row, "type", "decision", "actor", "reviewer") == ("HIL", "REJECT", "system", None)


def test_the_resume_event_names_reviewer_and_decision(start: Start, reviewer: User) -> None:
    execution = start(echo("a", {"n": 1}, phase=AFTER))
    decide(execution, reviewer, edits={"n": 2}, comment="two")
    (event,) = (
        each for each in wire_events(execution.pk, after=0) if each["type"] == "workflow_resumed"
    )
    names = ("decision", "comment", "reviewer", "edited", "nodeId", "triggerPhase")
    assert pick(event, *names) == ("APPROVE", "two", "reviewer", True, "a", AFTER)


# --- rejected outputs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_reject", "status"), [("abort", "REJECTED"), ("fail", "REJECTED"), ("skip", "SKIPPED")]
)
def test_a_rejected_output_is_marked_and_is_no_output(
    start: Start, reviewer: User, operator: User, on_reject: str, status: str
) -> None:
    execution = start(echo("a", "bad", phase=AFTER, on_reject=on_reject), echo("b", {"$from": "a"}))
    decide(execution, reviewer, "REJECT", comment="wrong")
    run_to_rest(execution.pk)
    task = body(reviewer, execution)["tasks"][0]
    names = ("status", "is_rejected", "output", "original_output")
    assert pick(task, *names) == (status, True, None, "bad")
    # The operator started the run; the reviewer sees it with its secrets masked.
    for user in (operator, reviewer):
        result = layer_results(user, execution)[0]
        assert pick(result, "status", "is_rejected", "output") == (status, True, None)


def test_an_output_that_was_sent_back_is_no_output(
    start: Start, reviewer: User, operator: User
) -> None:
    execution = start(echo("a", "first", phase=AFTER))
    assert body(reviewer, execution)["tasks"][0]["output"] == "first"
    decide(execution, reviewer, "REQUEST_CHANGES", comment="again")
    task = body(reviewer, execution)["tasks"][0]
    assert pick(task, "output", "original_output", "is_rejected") == (None, "first", False)
    result = layer_results(operator, execution)[0]
    assert pick(result, "output", "is_rejected") == (None, False)


def mcp(user: User, tool: str, **arguments: Any) -> dict[str, Any]:
    _, text = create_token(user=user, name="t", scopes=["read", "run"])
    caller = authenticate_caller(text)
    assert caller is not None

    async def call() -> Any:
        async with McpClient(build_server(lambda ctx: caller)) as client:
            return await client.call_tool(tool, arguments)

    answer = asyncio.run(call())
    assert not answer.is_error, answer.content
    return dict(answer.structured_content)


def layer_results(user: User, execution: Execution) -> list[dict[str, Any]]:
    answer = mcp(user, "get_execution", workflow_id=str(execution.pk), all_layers=True)
    return list(answer["layer_results"])


# --- the list of decisions ------------------------------------------------------------------------


def test_votes_withdrawals_and_decisions_in_their_order(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(echo("a", "x", phase=AFTER, quorum=2))
    decide(execution, reviewer, comment="first")
    withdrawal.withdraw(hold_id=only_hold(execution).id, user=reviewer, source="test")
    decide(execution, reviewer)
    decide(execution, reviewer2, comment="second", undo_seconds=60)
    Hold.objects.update(undo_until=timezone.now() - timedelta(seconds=1))
    assert withdrawal.settle_due() == 1
    run_to_rest(execution.pk)
    rows = decisions(reviewer, execution)
    names = ("type", "decision", "actor", "is_vote")
    assert [pick(row, *names) for row in rows] == [
        ("HIL", "APPROVE", "reviewer", True),
        ("HIL", "WITHDRAW", "reviewer", True),
        ("HIL", "APPROVE", "reviewer", True),
        ("HIL", "APPROVE", "reviewer2", False),
    ]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    assert pick(rows[-1], "node_id", "trigger_phase", "comment") == ("a", AFTER, "second")
    assert rows[-1]["timestamp"] > 1_700_000_000_000


def test_agents_and_people_side_by_side(start: Start, reviewer: User, operator: User) -> None:
    rules = {"rules": [{"when": "layer == `1`", "decision": "abort", "reason": "enough"}]}
    policy = {"ail": {"enabled": True, "agent": "rules", "settings": rules}}
    execution = start(
        echo("a", "x", phase=AFTER), echo("b", {"$from": "a"}), echo("c", {"$from": "b"}),
        policy=policy,
    )  # fmt: skip
    decide(execution, reviewer)
    assert run_to_rest(execution.pk).status == "ABORTED"
    names = ("type", "decision", "actor", "comment")
    assert [pick(row, *names) for row in decisions(operator, execution)] == [
        ("HIL", "APPROVE", "reviewer", ""),
        ("AIL", "CONTINUE", "agent:rules", "no rule holds"),
        ("AIL", "ABORT", "agent:rules", "enough"),
    ]


@pytest.mark.parametrize(("kind", "decision"), [("continue", "CONTINUE"), ("abort", "ABORT")])
def test_an_agent_that_steers_by_command(
    start: Start, operator: User, kind: str, decision: str
) -> None:
    policy = {"per_layer_validation": True}
    execution = start(echo("a"), echo("b", {"$from": "a"}), policy=policy)
    command = parse_command({"kind": kind, "reason": "looked"})
    submit_command(
        execution_id=execution.pk, command=command, actor=actor_named("operator"), source="mcp"
    )
    (row,) = decisions(operator, execution)
    names = ("type", "decision", "actor", "reviewer", "comment")
    assert pick(row, *names) == ("AIL", decision, "operator", None, "looked")


def test_a_person_who_aborts_at_a_review_and_a_rejection_that_does(
    start: Start, reviewer: User, operator: User
) -> None:
    aborted = start(echo("a", phase=BEFORE))
    command = parse_command({"kind": "abort", "reason": "no more"})
    submit_command(
        execution_id=aborted.pk, command=command, actor=actor_named("operator"), source="rest"
    )
    names = ("type", "decision", "actor", "comment")
    (row,) = decisions(operator, aborted)
    assert pick(row, *names) == ("HIL", "ABORT", "operator", "no more")
    rejected = start(echo("a", phase=BEFORE))
    decide(rejected, reviewer, "REJECT", comment="bad")
    (row,) = decisions(operator, rejected)
    assert pick(row, *names) == ("HIL", "REJECT", "reviewer", "bad")


def test_the_list_is_paged_and_needs_the_right_to_see_the_run(
    start: Start, reviewer: User, make_user: MakeUser
) -> None:
    execution = start(echo("a", phase=BEFORE), echo("b", phase=AFTER))
    for hold in list(execution.holds.order_by("opened_seq")):
        version = Execution.objects.get(pk=execution.pk).version
        services.decide(
            services.DecisionRequest(
                hold_id=hold.pk, user=reviewer, decision="APPROVE", version=version, source="test"
            )
        )
    path = f"/api/v1/executions/{execution.pk}/decisions/"
    first = api(reviewer).get(f"{path}?page_size=1").json()
    assert len(first["results"]) == 1
    second = api(reviewer).get(first["next"]).json()
    assert second["results"][0]["seq"] > first["results"][0]["seq"]
    assert api(make_user("stranger", "integrator")).get(path).status_code == 404
    assert api(reviewer).get(f"{path}?x=1").status_code == 422


# --- forks ----------------------------------------------------------------------------------------


def fork(execution: Execution, layer: int, actor: User) -> Execution:
    """A fork at the checkpoint after a layer, advanced until it rests."""
    checkpoint = execution.checkpoints.get(layer=layer)
    made = fork_execution(execution=execution, checkpoint=checkpoint, actor=actor)
    return run_to_rest(made.pk)


def reviewed_thrice(start: Start, reviewer: User, **policy: Any) -> Execution:
    """A run of three layers, each with a review, approved with the comments 1, 2 and 3."""
    execution = start(
        echo("a", phase=AFTER), echo("b", {"$from": "a"}, phase=AFTER),
        echo("c", {"$from": "b"}, phase=AFTER), policy=policy,
    )  # fmt: skip
    for comment in "123":
        decide(execution, reviewer, comment=comment)
        run_to_rest(execution.pk)
    return execution


def places(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(int(row["execution_id"]), row["comment"]) for row in rows]


def test_a_fork_starts_with_the_decisions_of_its_parent(
    start: Start, reviewer: User, operator: User
) -> None:
    first = reviewed_thrice(start, reviewer)
    child = fork(first, 0, operator)
    assert places(decisions(reviewer, child)) == [(first.pk, "1")]
    decide(child, reviewer, comment="child")
    run_to_rest(child.pk)
    grandchild = fork(child, 1, operator)
    decide(grandchild, reviewer, comment="grandchild")
    expected = [(first.pk, "1"), (child.pk, "child"), (grandchild.pk, "grandchild")]
    assert places(decisions(reviewer, grandchild)) == expected
    path = f"/api/v1/executions/{grandchild.pk}/decisions/?ordering=-seq"
    assert places(api(reviewer).get(path).json()["results"]) == expected[::-1]
    assert places(decisions(reviewer, first)) == [(first.pk, each) for each in "123"]
    answer = mcp(operator, "get_execution", workflow_id=str(grandchild.pk))
    told_by_mcp = [(int(row["workflow_id"]), row["comment"]) for row in answer["decisions"]]
    assert told_by_mcp == expected


def test_the_pages_of_a_fork_include_its_parents(
    start: Start, reviewer: User, operator: User
) -> None:
    first = reviewed_thrice(start, reviewer)
    child = fork(first, 1, operator)
    decide(child, reviewer, comment="child")
    link = f"/api/v1/executions/{child.pk}/decisions/?page_size=1"
    found = []
    while link:
        page = api(reviewer).get(link).json()
        found += places(page["results"])
        link = page["next"]
    assert found == [(first.pk, "1"), (first.pk, "2"), (child.pk, "child")]


def test_pruning_a_checkpoint_loses_no_decision(
    start: Start, reviewer: User, operator: User
) -> None:
    first = reviewed_thrice(start, reviewer)
    child = fork(first, 0, operator)
    first.checkpoints.all().delete()
    assert places(decisions(reviewer, child)) == [(first.pk, "1")]


def test_decisions_of_a_run_that_the_reader_may_not_see_are_left_out(
    start: Start, reviewer: User, operator: User, make_user: MakeUser
) -> None:
    forker = make_user("forker", "operator")
    first = reviewed_thrice(start, reviewer)
    child = fork(first, 0, forker)
    assert places(decisions(forker, child)) == [(first.pk, "1")]
    forker.groups.set([group_of("integrator")])
    assert api(forker).get(f"/api/v1/executions/{first.pk}/").status_code == 404
    assert decisions(forker, child) == []
    assert mcp(forker, "get_execution", workflow_id=str(child.pk))["decisions"] == []
    decide(child, reviewer, comment="own")
    assert places(decisions(forker, child)) == [(child.pk, "own")]


def test_an_agent_of_a_fork_receives_the_parents_decisions(
    start: Start, reviewer: User, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Curious()
    monkeypatch.setitem(registry._agents, "curious", agent)
    first = reviewed_thrice(start, reviewer, ail={"enabled": True, "agent": "curious"})
    agent.seen.clear()
    child = fork(first, 0, operator)
    decide(child, reviewer, comment="child")
    run_to_rest(child.pk)
    people = [dict(row) for row in agent.seen[-1].decisions if row["type"] == "HIL"]
    assert places(people) == [(first.pk, "1"), (child.pk, "child")]


# --- agents ---------------------------------------------------------------------------------------


class Curious:
    """An agent that keeps what it was shown."""

    in_process = True

    def __init__(self) -> None:
        self.seen: list[AgentQuestion] = []

    def decide(self, question: AgentQuestion) -> AgentAnswer:
        self.seen.append(question)
        return AgentAnswer("continue", reason=f"time {len(self.seen)}")


def test_agents_receive_decisions_and_no_rejected_output(
    start: Start, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Curious()
    monkeypatch.setitem(registry._agents, "curious", agent)
    execution = start(
        echo("a", "bad", phase=AFTER, on_reject="skip"), echo("free"),
        echo("later", {"$from": "free"}), echo("last", {"$from": "later"}),
        policy={"ail": {"enabled": True, "agent": "curious"}},
    )  # fmt: skip
    decide(execution, reviewer, "REJECT", comment="x" * 5_000)
    assert run_to_rest(execution.pk).status == "COMPLETED"
    first, second = agent.seen[:2]
    assert first.results["a"].output is None
    assert [each["decision"] for each in first.decisions] == ["REJECT"]
    assert first.decisions[0]["comment"] == "x" * 1_000
    assert [pick(dict(each), "type", "comment") for each in second.decisions[1:]] == [
        ("AIL", "time 1")
    ]


def test_a_rule_agent_can_read_decisions(start: Start, reviewer: User) -> None:
    rule = {"when": "decisions[?decision == 'REJECT']", "decision": "abort", "reason": "rejected"}
    policy = {"ail": {"enabled": True, "agent": "rules", "settings": {"rules": [rule]}}}
    execution = start(
        echo("a", phase=AFTER, on_reject="skip"), echo("free"), echo("b", {"$from": "free"}),
        policy=policy,
    )  # fmt: skip
    decide(execution, reviewer, "REJECT", comment="no")
    done = run_to_rest(execution.pk)
    assert (done.status, done.error) == ("ABORTED", "rejected")


def test_an_agent_over_mcp_receives_the_decisions(
    start: Start, reviewer: User, operator: User
) -> None:
    execution = start(
        echo("a", phase=AFTER), echo("b", {"$from": "a"}), policy={"per_layer_validation": True}
    )
    decide(execution, reviewer, comment="fine")
    run_to_rest(execution.pk)
    answer = mcp(operator, "get_execution", workflow_id=str(execution.pk))
    assert [pick(row, "type", "decision", "comment") for row in answer["decisions"]] == [
        ("HIL", "APPROVE", "fine")
    ]
