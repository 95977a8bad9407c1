"""Grants: limits by role, revocation, active grants, immutable rows."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from config.devserver.embedded.processes import wait_until
from reviews.decisions.rights import NotAllowed, right_now
from tests.support.http_server import Server
from workflows.engine.protocol.decide import Refused
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Grant
from workflows.permissions.grants import in_force, may_revoke, revoke, visible_grants

from .conftest import Desk, address, code, echo, fetch, use

SLOW = """
answer = fetch(url)
import time
time.sleep(20)
answer["status"]
"""


# --- taking back ----------------------------------------------------------------------------------


def test_a_later_task_no_longer_has_a_revoked_grant(desk: Desk, web: Server) -> None:
    pause = echo("pause", human_review={"on_timeout": "keep_waiting"}, depends_on=["one"])
    execution = desk.run(fetch("one", web), pause, fetch("two", web, depends_on=["pause"]))
    execution = desk.approve(execution, grant_scope="execution")
    assert desk.hold(execution).task_id == "pause"
    revoke(grant=Grant.objects.get(), user=desk.operator)
    execution = desk.approve(execution)
    hold = desk.hold(execution)
    assert (hold.task_id, hold.reason) == ("two", "escalation")
    assert hold.payload["current"]["hosts"] == []


def test_a_pending_task_escalates_again_after_a_revocation(desk: Desk, web: Server) -> None:
    """The state remembers the grant; the ledger is what counts."""
    execution = desk.run(fetch("one", web))
    first = desk.hold(execution)
    desk.decide(first)
    revoke(grant=Grant.objects.get(), user=desk.reviewer)
    execution = desk.drive(execution)
    assert desk.hold(execution).pk != first.pk
    assert desk.approve(execution).status == "COMPLETED"


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_running_task_is_stopped(desk: Desk, web: Server, language: str) -> None:
    slow = SLOW if language == "python" else SLOW_SCRIPT
    task = fetch("slow", web, language, timeout_seconds=30)
    execution = desk.run({**task, "code": slow}, echo("apart"))
    desk.decide(desk.hold(execution))
    worker = threading.Thread(target=_drive, args=(execution.pk,))
    before = len(web.seen)
    worker.start()
    assert wait_until(lambda: len(web.seen) > before, 60)
    revoke(grant=Grant.objects.get(), user=desk.operator)
    worker.join(18)
    assert not worker.is_alive()
    execution.refresh_from_db()
    assert desk.statuses(execution) == {"slow": "FAILED", "apart": "SUCCEEDED"}
    assert "was revoked" in desk.error(execution, "slow")


SLOW_SCRIPT = """
const answer = await fetch(url);
await new Promise((done) => setTimeout(done, 20000));
return answer.status;
"""


def _drive(execution_id: int) -> None:
    try:
        run_to_rest(execution_id)
    finally:
        connection.close()


def test_a_revoked_capability_grant_lowers_its_set(desk: Desk, web: Server) -> None:
    desk.capability("page", "python", web)
    url = f"http://{address(web)}/echo"
    desk.approve(desk.run(use("ask", "page", url=url)), grant_scope="capability")
    assert desk.run(use("ask", "page", url=url)).status == "COMPLETED"
    revoke(grant=Grant.objects.get(scope="capability"), user=desk.operator)
    assert desk.run(use("ask", "page", url=url)).status == "PAUSED_FOR_REVIEW"


def test_only_permitted_roles_revoke_a_grant(desk: Desk, web: Server) -> None:
    desk.approve(desk.run(fetch("one", web)))
    grant = Grant.objects.get()
    other, admin = desk.person("other", "reviewer"), desk.person("boss", "admin")
    assert may_revoke(desk.reviewer, grant)  # gave it
    assert may_revoke(desk.operator, grant)
    assert may_revoke(admin, grant)
    with pytest.raises(Refused, match="person who granted it"):
        revoke(grant=grant, user=other)
    revoke(grant=grant, user=admin)
    with pytest.raises(Refused, match="boss has already revoked it"):
        revoke(grant=grant, user=desk.operator)


# --- in force -------------------------------------------------------------------------------------


def test_active_grants_are_listed(desk: Desk, web: Server) -> None:
    done = desk.approve(desk.run(fetch("one", web)))
    assert done.status == "COMPLETED"
    assert not in_force(desk.operator).exists()  # spent with its run
    assert visible_grants(desk.operator).count() == 1
    held = desk.run(fetch("one", web), echo("two", human_review={"on_timeout": "keep_waiting"}))
    desk.decide(desk.hold(held, "one"))
    assert in_force(desk.operator).get().execution_id == held.pk
    stranger = desk.person("stranger", "integrator")
    assert not visible_grants(stranger).exists()


@pytest.mark.parametrize(
    "change",
    [
        'UPDATE workflows_grant SET permissions = \'{"hosts": ["*"]}\'',
        "UPDATE workflows_grant SET scope = 'execution'",
        "UPDATE workflows_grant SET expires_at = now() + interval '1 day'",
        "UPDATE workflows_grant SET revoked_at = NULL, revoked_by = ''",
        "UPDATE workflows_grant SET uses = 0",
        "DELETE FROM workflows_grant",
    ],
)
def test_the_database_refuses_to_rewrite_a_grant(desk: Desk, web: Server, change: str) -> None:
    desk.approve(desk.run(fetch("one", web)))
    revoke(grant=Grant.objects.get(), user=desk.operator)
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


def test_a_decision_that_does_not_commit_leaves_no_grant(
    desk: Desk, web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = desk.run(fetch("one", web))

    def fail(*args: Any) -> None:
        raise RuntimeError("the record could not be written")

    monkeypatch.setattr("reviews.decisions.services.write_record", fail)
    with pytest.raises(RuntimeError):
        desk.decide(desk.hold(execution))
    assert not Grant.objects.exists()
    assert desk.hold(execution).status == "OPEN"


# --- ceilings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ceiling", ["minimal", "readonly", "filesystem"])
def test_a_need_above_the_runs_ceiling_opens_no_hold(desk: Desk, web: Server, ceiling: str) -> None:
    policy = {"permission_ceiling": ceiling}
    execution = desk.run(fetch("one", web), echo("apart"), policy=policy)
    assert execution.status == "FAILED"
    assert not execution.holds.exists()
    assert desk.error(execution, "one") == (
        f"it needs permission to connect to {address(web)}, which is above the ceiling of this run "
        f"({ceiling}); nobody can grant it"
    )
    assert desk.statuses(execution)["apart"] == "SUCCEEDED"


def test_an_unknown_ceiling_is_named(desk: Desk, web: Server) -> None:
    from workflows.executions.validation import InvalidRequest

    with pytest.raises(InvalidRequest) as raised:
        desk.run(echo("one"), policy={"permission_ceiling": "everything"})
    assert [each.path for each in raised.value.problems] == ["policy.permission_ceiling"]


def test_a_role_grants_up_to_its_limit(desk: Desk, web: Server, settings: Any) -> None:
    ceilings = {"reviewer": "filesystem", "admin": "trusted"}
    settings.HOLDPOINT = {**settings.HOLDPOINT, "grant_ceilings": ceilings}
    execution = desk.run(fetch("one", web))
    hold = desk.hold(execution)
    right = right_now(desk.reviewer, hold)
    assert (right.approve, right.reject, right.code) == (False, True, "ceiling")
    assert "up to “filesystem”" in right.reason
    with pytest.raises(NotAllowed):
        desk.decide(hold)
    assert not Grant.objects.exists()
    both = desk.person("both", "reviewer", "admin")
    assert desk.decide(hold, user=both).complete
    assert Execution.objects.get(pk=execution.pk).grants.get().granted_by == "both"


def test_a_granted_need_opens_no_hold(desk: Desk, tmp_path: Any) -> None:
    """Nothing below /proc is ever in reach: no hold that no answer could satisfy."""
    execution = desk.run(code("one", 'open("/proc/self/environ").read()'))
    assert execution.status == "FAILED"
    assert not execution.holds.exists()
