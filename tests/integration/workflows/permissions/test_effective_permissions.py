"""Effective permissions of a task: unknown names, invalid grants, number of queries."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reviews.decisions.rights import NotAllowed, right_now
from tests.support.http_server import Server
from workflows.engine.plans.dag import CapabilityTask, CodeTask, ToolTask
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import Failure, Success, TaskCall
from workflows.executions.layer_runner import LayerRunner
from workflows.models import Execution, Grant
from workflows.permissions.capabilities import make_capability
from workflows.permissions.effective import effective_permissions
from workflows.sandbox.checks import check_sandbox

from .conftest import Desk, address, code, echo, fetch

KNOWN = "one of minimal, readonly, filesystem, network-api, mcp-standard, trusted"


def calls(execution: Execution, *tasks: Any) -> list[TaskCall]:
    return [TaskCall(task, {"value": 1}, 1, task.id, str(execution.pk)) for task in tasks]


# --- names that nobody knows ----------------------------------------------------------------------


def misspelt(execution: Execution, **policy: Any) -> Execution:
    """As if it had been stored by other means: nothing checks it on the way in."""
    Execution.objects.filter(pk=execution.pk).update(policy={**execution.policy, **policy})
    return Execution.objects.get(pk=execution.pk)


def test_an_unknown_ceiling_lets_no_task_run(desk: Desk, web: Server) -> None:
    asked = len(web.seen)
    held = desk.run(fetch("one", web, human_review={"on_timeout": "keep_waiting"}))
    execution = desk.approve(misspelt(held, permission_ceiling="trustd"))
    assert execution.status == "FAILED"
    assert not execution.holds.filter(reason="escalation").exists()
    assert desk.error(execution, "one") == (
        f"the ceiling of this run is not known: unknown permission set 'trustd'; {KNOWN}; "
        "the task does not run without it"
    )
    assert len(web.seen) == asked


UNKNOWN = "fielsystem"
TASKS = {
    "code": CodeTask(
        id="one", type="code_execution", language="python", code="1", permission_set=UNKNOWN
    ),
    "capability": CapabilityTask(
        id="one", type="capability", capability="page", permission_set=UNKNOWN
    ),
    "tool": ToolTask(id="one", type="tool", tool="builtin.echo", permission_set=UNKNOWN),
}


@pytest.mark.parametrize("kind", sorted(TASKS))
def test_a_task_with_an_unknown_set_does_not_run(desk: Desk, web: Server, kind: str) -> None:
    desk.capability("page", "python", web)
    execution = desk.run(echo("any"))
    apart = ToolTask(id="apart", type="tool", tool="builtin.echo", arguments={"value": 1})
    runner = LayerRunner()
    batches = runner.run(calls(execution, TASKS[kind], apart), lambda: False)
    outcomes = {each.call.task.id: each.outcome for batch in batches for each in batch}
    assert isinstance(outcomes["one"], Failure)
    told = "the task's permission_set is not known: unknown permission set 'fielsystem'"
    assert told in outcomes["one"].message
    assert not outcomes["one"].retryable
    assert isinstance(outcomes["apart"], Success)


def test_no_capability_is_created_under_an_unknown_ceiling(desk: Desk) -> None:
    execution = misspelt(desk.run(code("one", "1")), permission_ceiling="trustd")
    with pytest.raises(Refused, match="unknown permission set 'trustd'"):
        make_capability(actor=desk.operator, execution=execution, task_id="one", name="one")


def test_an_unknown_ceiling_of_a_group_grants_nothing(
    desk: Desk, web: Server, settings: Any
) -> None:
    ceilings = {"reviewer": "mcp-standrad", "admin": "trusted"}
    settings.HOLDPOINT = {**settings.HOLDPOINT, "grant_ceilings": ceilings}
    hold = desk.hold(desk.run(fetch("one", web)))
    right = right_now(desk.reviewer, hold)
    assert (right.approve, right.reject, right.code) == (False, True, "ceiling")
    assert "“mcp-standrad” is no permission set and lets nothing pass" in right.reason
    with pytest.raises(NotAllowed):
        desk.decide(hold)
    found = [message for message in check_sandbox(None) if message.id == "workflows.E104"]
    assert "'reviewer' is 'mcp-standrad'" in found[0].msg
    assert desk.decide(hold, user=desk.person("boss", "reviewer", "admin")).complete


def test_an_invalid_grant_has_no_effect(desk: Desk, web: Server) -> None:
    execution = desk.run(fetch("one", web))
    desk.decide(desk.hold(execution))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE workflows_grant DISABLE TRIGGER USER")
        Grant.objects.update(permissions={"hosts": ["*.com", "not a host"]})
        cursor.execute("ALTER TABLE workflows_grant ENABLE TRIGGER USER")
    execution = desk.drive(execution)
    assert desk.hold(execution).payload["current"]["hosts"] == []


# --- how often the ledger is read -----------------------------------------------------------------


def queries(execution: Execution, *tasks: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as caught:
        effective_permissions(calls(execution, *tasks))
    return [each["sql"] for each in caught.captured_queries]


def test_grants_are_read_once_and_only_for_tasks_that_can_escalate(desk: Desk, web: Server) -> None:
    execution = desk.run(fetch("ask", web))
    desk.decide(desk.hold(execution), grant_scope="execution")
    quiet = [ToolTask(id=f"t{n}", type="tool", tool="builtin.echo") for n in range(50)]
    assert queries(execution, *quiet) == []
    asking = [
        CodeTask(id=f"c{n}", type="code_execution", language="python", code="1") for n in range(50)
    ]
    read, counted = queries(execution, *quiet, *asking)
    assert 'FROM "workflows_grant"' in read
    assert counted.startswith('UPDATE "workflows_grant"')
    stored = CapabilityTask(id="k", type="capability", capability="none")
    assert len(queries(execution, *asking, stored)) == 3
    permits = effective_permissions(calls(execution, *quiet, *asking))
    assert permits["c7"].permissions.hosts == (address(web),)
    assert permits["t7"].grants == ()
