"""Code and capabilities, in both languages, that reach for the network with the minimal set."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.models import HumanReviewRecord
from tests.support.actors import actor_named
from tests.support.http_server import Server
from workflows.executions.services import parse_command, submit_command
from workflows.models import Execution, Grant

from .conftest import ANSWER, LANGUAGES, Desk, address, echo, fetch, page, use

KINDS = [(kind, language) for kind in ("code_execution", "capability") for language in LANGUAGES]


def asking(desk: Desk, web: Server, kind: str, language: str) -> dict[str, Any]:
    """A task of this kind that needs the local server."""
    if kind == "code_execution":
        return fetch("ask", web, language)
    desk.capability("page", language, web)
    return use("ask", "page", url=page(web))


def branches(desk: Desk, web: Server, kind: str, language: str) -> Execution:
    """A run with `ask`, a task that needs it, and a branch that needs neither."""
    ask = asking(desk, web, kind, language)
    after = echo("after", {"$from": "ask"})
    apart = [echo("apart"), echo("apart2", {"$from": "apart"})]
    return desk.run(ask, after, *apart)


@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_the_hold_names_the_need(desk: Desk, web: Server, kind: str, language: str) -> None:
    execution = branches(desk, web, kind, language)
    hold = desk.hold(execution)
    assert execution.status == "PAUSED_FOR_REVIEW"
    assert (hold.reason, hold.decider, hold.task_id) == ("escalation", "human", "ask")
    payload = hold.payload
    assert payload["operation"] == "net"
    assert payload["resource"] == address(web)
    assert payload["current"]["hosts"] == []
    assert payload["requested"]["hosts"] == [address(web)]
    assert payload["line"] == 1
    assert payload["language"] == language
    assert "fetch(url)" in payload["code"].splitlines()[payload["line"] - 1]
    # Siblings have their results already.
    assert desk.statuses(execution) == {"apart": "SUCCEEDED"}


@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_an_approved_task_completes_with_the_real_response(
    desk: Desk, web: Server, kind: str, language: str
) -> None:
    execution = branches(desk, web, kind, language)
    asked = len(web.seen)
    execution = desk.approve(execution, comment="our own server")
    assert execution.status == "COMPLETED"
    assert desk.output(execution, "after") == ANSWER
    assert web.seen[asked:] == ["GET /large?bytes=5"]
    assert execution.attempts.get(task_id="ask").logs == "asked\n"
    assert execution.attempts.filter(task_id="apart").count() == 1
    grant = Grant.objects.get(execution=execution)
    assert (grant.scope, grant.operation, grant.resource) == ("task", "net", address(web))
    assert (grant.granted_by, grant.why, grant.uses) == ("reviewer", "our own server", 1)
    record = HumanReviewRecord.objects.get(execution=execution)
    assert (record.reason, record.decision, record.node_id) == ("escalation", "APPROVE", "ask")


@pytest.mark.parametrize(("kind", "language"), KINDS)
def test_a_rejected_task_fails_and_the_others_continue(
    desk: Desk, web: Server, kind: str, language: str
) -> None:
    execution = branches(desk, web, kind, language)
    asked = len(web.seen)
    execution = desk.reject(execution, comment="not today")
    assert execution.status == "FAILED"
    assert desk.statuses(execution) == {
        "ask": "FAILED",
        "after": "SKIPPED",
        "apart": "SUCCEEDED",
        "apart2": "SUCCEEDED",
    }
    assert desk.error(execution, "ask") == "reviewer refused the permission: not today"
    assert web.seen[asked:] == []
    assert not Grant.objects.filter(execution=execution).exists()


def test_a_run_fails_only_when_a_leaf_does(desk: Desk, web: Server) -> None:
    """What would have read from the refused task was taken out of the run before."""
    execution = desk.run(fetch("ask", web), echo("after", {"$from": "ask"}), echo("apart"))
    submit_command(
        execution_id=execution.pk,
        command=parse_command({"kind": "skip_layer", "layer": 1}),
        actor=actor_named("operator"),
        source="test",
    )
    execution = desk.reject(execution)
    assert desk.statuses(execution) == {
        "ask": "FAILED",
        "after": "SKIPPED",
        "apart": "SUCCEEDED",
    }
    assert execution.status == "COMPLETED"
