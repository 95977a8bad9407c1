"""Taking a decision back while the run has not gone on: the record, the hold, the race."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from reviews.audit.chain import verify_chain
from reviews.audit.records import canonical_text
from reviews.decisions import services, withdrawal
from reviews.decisions.conflicts import Conflict
from reviews.decisions.rights import NotAllowed
from reviews.models import DeniedAttempt, HumanReviewRecord, ReviewClaim
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.actors import actor_named
from tests.support.repetitions import often
from workflows.executions.jobs import advance, run_to_rest
from workflows.executions.recovery import seconds_to_next, sweep
from workflows.executions.services import parse_command, submit_command
from workflows.models import CommandLog, Execution, Grant, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"
LONG = 600.0


def decide(hold: Hold, user: User, decision: str = "APPROVE", **more: Any) -> Any:
    version = Execution.objects.values_list("version", flat=True).get(pk=hold.execution_id)
    given: dict[str, Any] = {"version": version, "source": "web", "undo_seconds": LONG, **more}
    return services.decide(
        services.DecisionRequest(hold_id=hold.id, user=user, decision=decision, **given)
    )


def take_back(hold: Hold, user: User, **more: Any) -> withdrawal.Withdrawal:
    return withdrawal.withdraw(hold_id=hold.id, user=user, **{"source": "web", **more})


def end_undo_time(*holds: Hold) -> None:
    """The time to undo these is over, by the database's clock."""
    rows = Hold.objects.filter(pk__in=[each.pk for each in holds])
    rows.update(undo_until=Now() - timedelta(seconds=1))


def chain_is_whole() -> bool:
    rows = list(HumanReviewRecord.objects.order_by("id"))
    return not verify_chain(rows, text_of=canonical_text).problems


def kinds(execution: Execution) -> list[str]:
    return list(execution.events.order_by("seq").values_list("kind", flat=True))


# --- the decision rests -----------------------------------------------------------------------


def test_a_decision_is_recorded_and_the_run_waits_for_the_undo_time(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    result = decide(hold, reviewer)
    assert result.undo_until is not None
    hold.refresh_from_db()
    assert (hold.status, hold.decided_by, hold.undo_until) == (
        "APPROVED",
        "reviewer",
        result.undo_until,
    )
    for _ in range(3):
        advance(execution.pk)
    assert withdrawal.settle_due() == 0, "its time is not over"
    execution.refresh_from_db()
    assert (execution.status, execution.version) == ("PAUSED_FOR_REVIEW", result.version)
    end_undo_time(hold)
    assert withdrawal.settle_due() == 1
    assert withdrawal.settle_due() == 0
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert HumanReviewRecord.objects.count() == 1
    seqs = execution.events.order_by("seq").values_list("seq", flat=True)
    assert list(seqs) == list(range(1, len(seqs) + 1))


def test_the_sweeper_alone_carries_out_the_decision(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    decide(hold, reviewer)
    assert 0 < seconds_to_next() <= 3.0
    end_undo_time(hold)
    sweep()
    execution.refresh_from_db()
    assert execution.status == "RUNNING"
    assert "hold_decided" in kinds(execution)


def test_without_an_undo_time_the_run_continues_at_once(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    result = decide(hold, reviewer, undo_seconds=0)
    assert (result.status, result.undo_until) == ("RUNNING", None)
    with pytest.raises(Conflict) as late:
        take_back(hold, reviewer)
    assert late.value.code == "gone_on"
    assert late.value.state["status"] == "RUNNING"
    assert [each["by"] for each in late.value.state["decided"]] == ["reviewer"]


# --- taken back -------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["APPROVE", "REJECT"])
@pytest.mark.parametrize("phase", [BEFORE, AFTER])
def test_a_withdrawal_reopens_the_hold_and_is_recorded(
    start: Start, reviewer: User, decision: str, phase: str
) -> None:
    execution = start(echo("a", phase=phase))
    hold = only_hold(execution)
    decided = decide(hold, reviewer, decision, comment="too fast")
    back = take_back(hold, reviewer, comment="I meant the other one")
    again = only_hold(execution)
    assert (again.id, again.approvals, again.decided_by) == (hold.id, [], "")
    assert (again.decision, again.decided_at, again.undo_until) == ("", None, None)
    assert (back.what, back.status, back.version) == (
        "decision",
        "PAUSED_FOR_REVIEW",
        decided.version + 1,
    )
    first, second = HumanReviewRecord.objects.order_by("id")
    assert (first.decision, second.decision, second.withdraws) == (decision, "WITHDRAW", first)
    assert second.comment == "I meant the other one"
    assert chain_is_whole()
    assert kinds(execution)[-2:] == ["hold_answered", "hold_withdrawn"]
    assert CommandLog.objects.filter(kind="withdraw_answer", outcome="applied").count() == 1
    result = decide(again, reviewer, undo_seconds=0)
    assert result.status == "RUNNING"
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert chain_is_whole()


def test_a_withdrawn_edit_reaches_no_task(start: Start, reviewer: User) -> None:
    execution = start(echo("a", "as it was", phase=AFTER), echo("b", {"$from": "a"}))
    hold = only_hold(execution)
    decide(hold, reviewer, edits="edited")
    take_back(hold, reviewer)
    decide(hold, reviewer, undo_seconds=0)
    done = run_to_rest(execution.pk)
    assert done.attempts.get(task_id="b").output == "as it was"


def test_the_deadline_of_a_hold_is_suspended_during_the_undo_time(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE, timeout_seconds=60))
    hold = only_hold(execution)
    decide(hold, reviewer)
    minute = timedelta(seconds=100)
    Hold.objects.filter(pk=hold.pk).update(
        decided_at=F("decided_at") - minute, expires_at=F("expires_at") - minute
    )
    assert services.expire_due() == 0, "time decides nothing that a person has decided"
    take_back(hold, reviewer)
    now = only_hold(execution)
    assert now.expires_at is not None
    assert now.expires_at >= hold.expires_at
    assert services.expire_due() == 0


def test_a_vote_can_be_withdrawn_before_the_quorum(
    start: Start, reviewer: User, reviewer2: User, make_user: MakeUser
) -> None:
    execution = start(echo("a", phase=BEFORE, quorum=2))
    hold = only_hold(execution)
    decide(hold, reviewer)
    back = take_back(hold, reviewer)
    assert (back.what, only_hold(execution).approvals) == ("vote", [])
    decide(hold, reviewer2)
    decide(hold, reviewer)
    with pytest.raises(NotAllowed, match="reviewer decided this"):
        take_back(hold, reviewer2)
    take_back(hold, reviewer)
    assert only_hold(execution).approvals == ["reviewer2"]
    third = make_user("third", "reviewer")
    decide(hold, third, undo_seconds=0)
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert chain_is_whole()


def test_only_the_decider_may_withdraw(
    start: Start, reviewer: User, reviewer2: User, auditor: User, make_user: MakeUser
) -> None:
    admin = make_user("root", "admin")
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    with pytest.raises(Conflict) as nothing:
        take_back(hold, reviewer)
    assert nothing.value.code == "nothing_to_withdraw"
    decide(hold, reviewer)
    for other in (reviewer2, auditor):
        with pytest.raises(NotAllowed):
            take_back(hold, other)
    with pytest.raises(services.HoldNotFound):
        take_back(hold, make_user("stranger"))
    assert set(DeniedAttempt.objects.values_list("actor", "wanted")) == {
        ("reviewer2", "WITHDRAW"),
        ("auditor", "WITHDRAW"),
    }
    reviewer.groups.clear()
    with pytest.raises(services.HoldNotFound):
        take_back(hold, reviewer)
    take_back(hold, admin)
    record = HumanReviewRecord.objects.latest("id")
    assert (record.actor, record.withdraws.actor) == ("root", "reviewer")
    assert only_hold(execution).approvals == []


def test_a_claim_ends_with_the_decision_and_stays_ended(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    ReviewClaim.objects.create(hold=hold, user=reviewer, expires_at=Now() + timedelta(seconds=60))
    decide(hold, reviewer)
    take_back(hold, reviewer)
    assert not ReviewClaim.objects.exists()


def test_a_decision_can_be_withdrawn_while_another_review_is_open(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(echo("a", phase=BEFORE), echo("b", phase=BEFORE))
    first, second = execution.holds.order_by("opened_seq")
    decide(first, reviewer)
    end_undo_time(first)
    assert withdrawal.settle_due() == 0, "the run has not gone on"
    take_back(first, reviewer)
    decide(first, reviewer)
    end_undo_time(first)
    decide(second, reviewer2, undo_seconds=0)
    execution.refresh_from_db()
    assert execution.status == "PAUSED_FOR_REVIEW"
    assert withdrawal.settle_due() == 1
    assert run_to_rest(execution.pk).status == "COMPLETED"


def test_a_rejection_that_ends_the_run_waits_for_no_other(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE), echo("b", phase=BEFORE))
    first, _ = execution.holds.order_by("opened_seq")
    decide(first, reviewer, "REJECT", comment="no")
    end_undo_time(first)
    assert withdrawal.settle_due() == 1
    execution.refresh_from_db()
    assert execution.status == "ABORTED"


def test_an_abort_drops_the_pending_decision(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    decide(hold, reviewer)
    submit_command(
        execution_id=execution.pk,
        command=parse_command({"kind": "abort", "reason": "enough"}),
        actor=actor_named("operator"),
        source="test",
    )
    hold.refresh_from_db()
    assert (hold.status, hold.undo_until) == ("CLOSED", None)
    assert withdrawal.settle_due() == 0
    with pytest.raises(Conflict):
        take_back(hold, reviewer)


def test_the_system_withdraws_a_decision_that_no_longer_applies(
    start: Start, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is checked again when it is carried out; refused, the hold is open and says why."""
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    decide(hold, reviewer)
    end_undo_time(hold)
    state = Execution.objects.get(pk=execution.pk).state
    state["holds"][0]["reason"] = "layer_approval"
    state["holds"][0]["answer"]["command"]["edits"] = {"no": "longer"}
    Execution.objects.filter(pk=execution.pk).update(state=state, version=F("version") + 1)
    assert withdrawal.settle_due() == 1
    assert only_hold(execution).id == hold.id
    record = HumanReviewRecord.objects.latest("id")
    assert (record.decision, record.actor, record.reviewer) == ("WITHDRAW", "system", None)
    assert "takes edits" in record.comment
    assert chain_is_whole()


def test_a_permission_is_granted_when_it_is_carried_out_and_not_before(
    start: Start, reviewer: User
) -> None:
    code = {"language": "python", "code": "open('/srv/notes.txt').read()", "inputs": {}}
    execution = start({"id": "a", "type": "code_execution", **code, "permission_set": "minimal"})
    if execution.status != "PAUSED_FOR_REVIEW":
        pytest.fail(f"nothing was asked for: {execution.status} {execution.error}")
    hold = only_hold(execution)
    assert hold.reason == "escalation"
    decide(hold, reviewer)
    assert not Grant.objects.exists()
    take_back(hold, reviewer)
    decide(hold, reviewer)
    end_undo_time(hold)
    assert withdrawal.settle_due() == 1
    assert Grant.objects.get().granted_by == "reviewer"


# --- races ------------------------------------------------------------------------------------

ROUNDS = often(12, 50)


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What came of each, begun at the same moment."""
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        try:
            barrier.wait(30)
            return act()
        except (Conflict, NotAllowed) as refused:
            return refused.code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_of_undo_and_continuation_one_wins(start: Start, reviewer: User) -> None:
    """The withdrawal, two sweepers and two workers at once: it is open, or it went on."""
    wins = {"undone": 0, "gone on": 0}
    for _ in range(ROUNDS):
        execution = start(echo("a", phase=BEFORE))
        hold = only_hold(execution)
        decide(hold, reviewer)
        end_undo_time(hold)

        def undo_it(hold: Hold = hold) -> str:
            return take_back(hold, reviewer).what

        def sweeper() -> int:
            return withdrawal.settle_due()

        def worker(execution: Execution = execution) -> None:
            advance(execution.pk)

        said, *_ = at_once(undo_it, sweeper, sweeper, worker, worker)
        hold.refresh_from_db()
        records = list(
            HumanReviewRecord.objects.filter(hold=hold)
            .order_by("id")
            .values_list("decision", flat=True)
        )
        if said == "decision":
            wins["undone"] += 1
            assert hold.status == "OPEN"
            assert records == ["APPROVE", "WITHDRAW"]
            assert "hold_decided" not in kinds(execution)
            assert run_to_rest(execution.pk).status == "PAUSED_FOR_REVIEW"
            assert not execution.attempts.exists()
        else:
            wins["gone on"] += 1
            assert said == "gone_on"
            assert hold.status == "APPROVED"
            assert records == ["APPROVE"]
            assert "hold_withdrawn" not in kinds(execution)
            assert run_to_rest(execution.pk).status == "COMPLETED"
        seqs = list(execution.events.order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, len(seqs) + 1))
    assert sum(wins.values()) == ROUNDS
    assert chain_is_whole()


def test_two_concurrent_withdrawals_make_one_record(start: Start, reviewer: User) -> None:
    for _ in range(10):
        execution = start(echo("a", phase=BEFORE))
        hold = only_hold(execution)
        decide(hold, reviewer)
        acts = [lambda hold=hold: take_back(hold, reviewer).what] * 4
        said = at_once(*acts)
        assert sorted(said) == ["decision", *["nothing_to_withdraw"] * 3]
        assert HumanReviewRecord.objects.filter(hold=hold, decision="WITHDRAW").count() == 1


def test_the_database_allows_one_withdrawal_per_record(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    decide(hold, reviewer)
    record = take_back(hold, reviewer).record
    record.pk, record.hash, record.version = None, "0" * 64, 99
    # Without the trigger that guards what follows what: this is about the constraint.
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
    try:
        with pytest.raises(IntegrityError, match="withdraws"), transaction.atomic():
            record.save(force_insert=True)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = origin")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        HumanReviewRecord.objects.update(withdraws=None)
