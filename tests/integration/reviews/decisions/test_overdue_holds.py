"""Overdue holds are decided and recorded; claims expire."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.rights import NotAllowed
from reviews.models import HumanReviewRecord, ReviewClaim
from reviews.queue import claims, selectors
from reviews.queue.filters import QueueFilters
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.support.pages import Page, browser
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
SOON = {"timeout_seconds": 0.001}


def until(done: Callable[[], Any]) -> None:
    """Ask the database's clock again until it has moved on far enough."""
    while not done():
        pass


@pytest.mark.parametrize(
    ("on_timeout", "decision", "status"),
    [("reject", "REJECT", "ABORTED"), ("approve", "APPROVE", "RUNNING")],
)
def test_an_overdue_hold_is_decided_and_recorded(
    start: Start, on_timeout: str, decision: str, status: str
) -> None:
    execution = start(echo("a", phase=BEFORE, on_timeout=on_timeout, **SOON))
    until(services.expire_due)
    execution.refresh_from_db()
    record = HumanReviewRecord.objects.get()
    assert (record.decision, record.reviewer, record.actor) == (decision, None, "system")
    assert (execution.status, record.version) == (status, execution.version)
    assert services.expire_due() == 0


def test_an_overdue_layer_approval_is_recorded(start: Start) -> None:
    policy = {"hil": {"enabled": True, "timeout_seconds": 0.001, "on_timeout": "abort"}}
    execution = start(echo("a"), policy=policy)
    assert only_hold(execution).reason == "layer_approval"
    until(services.expire_due)
    execution.refresh_from_db()
    record = HumanReviewRecord.objects.get()
    assert (execution.status, record.decision, record.node_id) == ("ABORTED", "REJECT", "")


def test_an_agents_hold_leaves_no_record(start: Start) -> None:
    execution = start(
        echo("a"),
        echo("b", {"$from": "a"}),
        policy={"ail": {"enabled": True, "timeout_seconds": 0.001}},
    )
    assert execution.status == "AWAITING_AGENT"
    until(services.expire_due)
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert not HumanReviewRecord.objects.exists()


def test_a_hold_that_keeps_waiting_is_left_alone(start: Start) -> None:
    execution = start(echo("a", phase=BEFORE, on_timeout="keep_waiting", **SOON))
    assert services.expire_due() == 0
    assert not services.expire(only_hold(execution).id)


def test_a_decided_hold_does_not_expire(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE, timeout_seconds=3600))
    hold = only_hold(execution)
    assert not services.expire(hold.id)
    decide(hold, reviewer)
    assert not services.expire(hold.id)
    assert not services.expire("no-such-hold")


def test_layers_are_signed(start: Start, reviewer: User) -> None:
    execution = start(echo("a"), policy={"hil": {"enabled": True}})
    decide(only_hold(execution), reviewer)
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert HumanReviewRecord.objects.get().reason == "layer_approval"


# --- claims ---------------------------------------------------------------------------------------


def test_a_claim_expires(start: Start, reviewer: User, reviewer2: User, monkeypatch: Any) -> None:
    monkeypatch.setattr("reviews.queue.claims.CLAIM_SECONDS", 0.001)
    hold = only_hold(start(echo("a", phase=BEFORE)))
    claims.claim(hold_id=hold.id, user=reviewer)

    def taken_over() -> bool:
        try:
            return claims.claim(hold_id=hold.id, user=reviewer2).user == reviewer2
        except Conflict:
            return False

    until(taken_over)
    assert ReviewClaim.objects.count() == 1


def test_a_decision_ends_the_claim_and_needs_none(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    claims.claim(hold_id=hold.id, user=reviewer)
    decide(hold, reviewer2)
    assert not ReviewClaim.objects.exists()
    with pytest.raises(Conflict):
        claims.claim(hold_id=hold.id, user=reviewer)


# --- the queue's tabs -----------------------------------------------------------------------------


def test_the_tabs_list_their_holds(
    start: Start, reviewer: User, reviewer2: User, auditor: User
) -> None:
    own = only_hold(start(echo("own", phase=BEFORE), actor=reviewer))
    claimed = only_hold(start(echo("claimed", phase=BEFORE)))
    voted = start(echo("voted", phase=BEFORE, quorum=2))
    free = only_hold(start(echo("free", phase=BEFORE)))
    only_hold(start(echo("others", phase=BEFORE, groups=["legal"])))
    claims.claim(hold_id=claimed.id, user=reviewer2)
    decide(only_hold(voted), reviewer)
    viewer = selectors.Viewer(reviewer)
    listed = {
        tab: [hold.task_id for hold in selectors.queue(viewer, tab)] for tab in selectors.TABS
    }
    assert listed == {
        "me": ["free"],
        "groups": ["own", "claimed", "voted", "free"],
        "claimed": [],
        "open": ["own", "claimed", "voted", "free"],
        "decided": [],
    }
    counts = selectors.tab_counts(viewer)
    assert counts == {tab: len(rows) for tab, rows in listed.items() if tab != "decided"}
    assert selectors.waiting_count(reviewer) == 1
    assert selectors.next_review(reviewer, own) == free
    watcher = selectors.Viewer(auditor)
    assert selectors.tab_counts(watcher) == {"me": 0, "groups": 0, "claimed": 0, "open": 5}
    found = selectors.queue(viewer, "open", QueueFilters(q="OWN"))
    assert [hold.task_id for hold in found] == ["own"]


# --- the other doors ------------------------------------------------------------------------------


def test_a_command_over_rest_is_recorded_as_a_decision(
    start: Start, reviewer: User, auditor: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    other = start(echo("a", phase=BEFORE))
    command = ApprovalResponse(hold=only_hold(execution).id, approved=True, edits={"value": "x"})
    common: dict[str, Any] = {"command": command, "token": None, "source": "mcp"}
    with pytest.raises(NotAllowed):
        services.decide_command(execution=execution, user=auditor, version=None, **common)
    with pytest.raises(services.HoldNotFound):
        services.decide_command(execution=other, user=reviewer, version=None, **common)
    with pytest.raises(Conflict):
        services.decide_command(execution=execution, user=reviewer, version=1, **common)
    result = services.decide_command(execution=execution, user=reviewer, version=None, **common)
    assert result.edited
    assert HumanReviewRecord.objects.get().source == "mcp"


def approve_one(start: Start, reviewer: User) -> Execution:
    execution = start(echo("a", phase=BEFORE))
    decide(only_hold(execution), reviewer)
    return execution


def test_verify_audit_finds_what_was_altered(start: Start, reviewer: User) -> None:
    for _ in range(3):
        approve_one(start, reviewer)
    out = StringIO()
    call_command("verify_audit", stdout=out)
    newest = HumanReviewRecord.objects.latest("id")
    assert f"3 records are whole; the head is {newest.hash}" in out.getvalue()
    call_command("verify_audit", "--published", newest.hash, stdout=StringIO())
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE reviews_humanreviewrecord SET original_data = '{\"value\": 1}'")
        cursor.execute("SET session_replication_role = origin")
    errors = StringIO()
    with pytest.raises(CommandError, match="3 problems in 3 records"):
        call_command("verify_audit", stderr=errors)
    assert "altered" in errors.getvalue()


def test_the_admin_is_read_only(start: Start, reviewer: User, make_user: MakeUser) -> None:
    approve_one(start, reviewer)
    hold = only_hold(start(echo("b", phase=BEFORE)))
    claims.claim(hold_id=hold.id, user=reviewer)
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    record = HumanReviewRecord.objects.get()
    base = "/admin/reviews/humanreviewrecord/"
    assert f"{base}{record.pk}/change/" in Page(client.get(base)).links
    assert client.get(f"{base}{record.pk}/change/").status_code == 200
    assert client.post(f"{base}{record.pk}/change/", {"comment": "x"}).status_code == 403
    assert client.get(f"{base}add/").status_code == 403
    assert client.post(f"{base}{record.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get("/admin/reviews/reviewclaim/").status_code == 200
    assert "/review/" in Page(client.get("/admin/")).links
    assert Hold.objects.filter(pk=hold.pk, status="OPEN").exists()
