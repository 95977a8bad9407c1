"""Recipients of each kind of notice, sent once, and closed afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.functions import Now

from reviews.decisions import withdrawal
from reviews.models import Notice, NoticeMessage, ReviewClaim
from reviews.notifications import inbox, journal_consumer, notice_text, sweeper_hooks
from reviews.notifications.preferences import KINDS, save_preferences
from reviews.queue import claims
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo
from tests.integration.reviews.notifications.conftest import Wait, consume_journal, notice_kinds
from tests.integration.workflows.executions.test_reminders import at_once, pass_time
from tests.support.actors import actor_named
from tests.support.pages import open_page
from workflows.engine.protocol.commands import Abort, WithdrawAnswer
from workflows.executions.recovery import escalate_due
from workflows.executions.services import submit_command
from workflows.journal.event_log import ReadWatermark
from workflows.models import EventCursor, ExecutionEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def test_only_deciders_are_notified(
    wait: Wait, make_user: MakeUser, ann: User, bob: User, operator: User
) -> None:
    auditor = make_user("aud", "auditor", "reviewer")
    gone = make_user("gone", "reviewer", is_active=False)
    legal = make_user("lea", "legal")
    wait()
    consume_journal()
    assert (notice_kinds(ann), notice_kinds(bob)) == (["waiting"], ["waiting"])
    assert [notice_kinds(each) for each in (auditor, gone, legal, operator)] == [[], [], [], []]


def test_the_starter_is_not_notified_to_approve(wait: Wait, ann: User, bob: User) -> None:
    wait(actor=ann)
    consume_journal()
    assert (notice_kinds(ann), notice_kinds(bob)) == ([], ["waiting"])


def test_a_decision_closes_its_notices_and_notifies_the_starter(
    wait: Wait, ann: User, bob: User, operator: User
) -> None:
    hold = wait()
    consume_journal()
    decide(hold, ann)
    consume_journal()
    assert (notice_kinds(ann, unread=True), notice_kinds(bob, unread=True)) == ([], [])
    (notice,) = Notice.objects.filter(user=operator)
    assert (notice.kind, notice.actor, notice.detail["decision"]) == ("decided", "ann", "APPROVE")


def test_a_hold_decided_before_its_notices_notifies_nobody(
    wait: Wait, ann: User, bob: User
) -> None:
    decide(wait(), ann)
    consume_journal()
    assert notice_kinds(bob) == []


def test_a_pending_decision_closes_notices_until_it_is_withdrawn(
    wait: Wait, ann: User, bob: User, operator: User
) -> None:
    hold = wait()
    consume_journal()
    decide(hold, ann, undo_seconds=600)
    consume_journal()
    assert (notice_kinds(ann, unread=True), notice_kinds(bob, unread=True)) == ([], [])
    assert notice_kinds(operator) == [], "nothing is decided yet"
    withdrawal.withdraw(hold_id=hold.pk, user=ann, source="test")
    consume_journal()
    assert notice_kinds(bob, unread=True) == ["waiting"]
    assert notice_kinds(ann, unread=True) == [], "who took it back knows"
    notice = Notice.objects.filter(user=bob).latest("pk")
    says = notice_text.sentence(notice.kind, notice.hold, notice.actor, notice.detail)
    assert says.startswith("ann withdrew the decision; it waits for you again: echo will run")
    # The same once more: told again, since it is another time.
    decide(hold, ann, undo_seconds=600)
    withdrawal.withdraw(hold_id=hold.pk, user=ann, source="test")
    consume_journal()
    assert notice_kinds(bob) == ["waiting"] * 3
    assert notice_kinds(bob, unread=True) == ["waiting"]
    decide(hold, bob)
    consume_journal()
    assert inbox.unread_count(bob) == 0


def test_a_quick_withdrawal_still_notifies(wait: Wait, ann: User, bob: User) -> None:
    hold = wait()
    decide(hold, ann, undo_seconds=600)
    withdrawal.withdraw(hold_id=hold.pk, user=ann, source="test")
    consume_journal()
    assert notice_kinds(bob, unread=True) == ["waiting"]


def test_a_decision_that_no_longer_applies_notifies_its_decider(
    wait: Wait, ann: User, bob: User
) -> None:
    hold = wait()
    consume_journal()
    decide(hold, ann, undo_seconds=600)
    consume_journal()
    back = WithdrawAnswer(hold=hold.pk, of=ann.pk)
    submit_command(
        execution_id=hold.execution_id, command=back, actor=actor_named("system"), source="time"
    )
    consume_journal()
    assert (notice_kinds(ann, unread=True), notice_kinds(bob, unread=True)) == (
        ["waiting"],
        ["waiting"],
    )


def test_a_withdrawn_vote_keeps_the_notices_of_others(wait: Wait, ann: User, bob: User) -> None:
    hold = wait(quorum=2)
    consume_journal()
    decide(hold, ann)
    withdrawal.withdraw(hold_id=hold.pk, user=ann, source="test")
    consume_journal()
    assert (notice_kinds(ann), notice_kinds(bob)) == (["waiting"], ["waiting"])
    assert notice_kinds(bob, unread=True) == ["waiting"]


def test_an_abort_closes_the_notices(wait: Wait, ann: User) -> None:
    hold = wait()
    consume_journal()
    submit_command(
        execution_id=hold.execution_id,
        command=Abort(),
        actor=actor_named("operator"),
        source="test",
    )
    consume_journal()
    assert notice_kinds(ann) == ["waiting"]
    assert inbox.unread_count(ann) == 0


def test_an_escalation_step_notifies_its_group_and_users(
    wait: Wait, make_user: MakeUser, ann: User, operator: User
) -> None:
    lea, outsider = make_user("lea", "legal"), make_user("out", "integrator")
    steps = [{"after_seconds": 60, "groups": ["legal"], "tell": ["operator", "out", "nobody"]}]
    hold = wait(escalation=steps)
    consume_journal()
    assert inbox.unread_count(lea) == 0
    pass_time(hold, 61)
    escalate_due()
    consume_journal()
    assert [notice_kinds(each) for each in (lea, ann, operator)] == [
        ["escalated"],
        ["waiting"],
        ["escalated"],
    ]
    assert [inbox.unread_count(each) for each in (lea, operator)] == [1, 1]
    # Somebody who may not see the run is shown nothing of it.
    assert inbox.unread_count(outsider) == 0
    assert not inbox.notices_of(outsider).exists()
    decide(hold, lea)
    assert hold.execution.review_records.get().reviewer == lea


def test_a_reminder_goes_to_the_claimant_or_else_to_all_deciders(
    wait: Wait, ann: User, bob: User
) -> None:
    reminders = [{"after_seconds": 3600}, {"after_seconds": 7200}]
    hold = wait(reminders=reminders)
    pass_time(hold, 3601)
    assert sweeper_hooks.remind_due() == 1
    assert (notice_kinds(ann), notice_kinds(bob)) == (["reminder"], ["reminder"])
    claims.claim(hold_id=hold.pk, user=ann)
    pass_time(hold, 3600)
    assert (sweeper_hooks.remind_due(), sweeper_hooks.remind_due()) == (1, 0)
    assert (notice_kinds(ann), notice_kinds(bob)) == (["reminder", "reminder"], ["reminder"])


def test_four_sweepers_remind_and_read_once(wait: Wait, ann: User, bob: User) -> None:
    for _ in range(5):
        pass_time(wait(reminders=[{"after_seconds": 60}]), 61)

    def sweep() -> None:
        sweeper_hooks.remind_due()
        journal_consumer.read_new()

    at_once(sweep)
    sweeper_hooks.remind_due()
    consume_journal()
    expected = ["reminder"] * 5 + ["waiting"] * 5
    assert (sorted(notice_kinds(ann)), sorted(notice_kinds(bob))) == (expected, expected)
    lines = [line for row in NoticeMessage.objects.filter(user=ann) for line in row.items]
    assert sorted(line["kind"] for line in lines) == ["reminder"] * 5


def test_a_restarted_consumer_resumes_at_its_position(
    wait: Wait, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume_journal()
    before = EventCursor.objects.get(name=journal_consumer.NAME).event
    wait()

    def raise_error(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(
            journal_consumer, "mark_resolved", raise_error
        )  # after the notices, before the commit
        with pytest.raises(RuntimeError):
            consume_journal()
    assert EventCursor.objects.get(name=journal_consumer.NAME).event == before
    assert notice_kinds(ann) == []
    consume_journal()
    assert notice_kinds(ann) == ["waiting"]


def test_claim_changes_notify(
    wait: Wait, ann: User, bob: User, operator: User, make_user: MakeUser
) -> None:
    cy = make_user("cy", "reviewer")
    hold = wait()
    claims.assign(hold_id=hold.pk, user=operator, to="ann")
    assert notice_kinds(ann) == ["claim_given"]
    claims.assign(hold_id=hold.pk, user=cy, to="bob")
    assert (notice_kinds(ann), notice_kinds(bob)) == (
        ["claim_given", "claim_taken"],
        ["claim_given"],
    )
    assert "cy assigned your claim to bob" in open_page(ann, "/notifications/").text
    ReviewClaim.objects.filter(hold=hold).update(expires_at=Now() - timedelta(seconds=1))
    assert sum(at_once(sweeper_hooks.claims_ended)) == 1
    assert notice_kinds(bob) == ["claim_given", "claim_ended"]
    assert not ReviewClaim.objects.exists()
    # Taking it oneself tells nobody.
    claims.claim(hold_id=hold.pk, user=cy)
    claims.assign(hold_id=hold.pk, user=cy, to="cy")
    assert notice_kinds(cy) == []


def test_muted_kinds_are_not_shown(wait: Wait, ann: User) -> None:
    save_preferences(
        user=ann, shown=[kind for kind in KINDS if kind != "waiting"], mailed=["waiting"]
    )
    wait()
    consume_journal()
    assert notice_kinds(ann) == []
    assert NoticeMessage.objects.get(user=ann).items[0]["kind"] == "waiting"


def test_by_default_only_reminders_and_escalations_are_mailed(
    wait: Wait, make_user: MakeUser, ann: User
) -> None:
    lea = make_user("lea", "legal", email="lea@example.com")
    hold = wait(
        reminders=[{"after_seconds": 60}], escalation=[{"after_seconds": 60, "groups": ["legal"]}]
    )
    consume_journal()
    assert not NoticeMessage.objects.exists()
    pass_time(hold, 61)
    sweeper_hooks.remind_due()
    escalate_due()
    consume_journal()
    kinds = {
        row.user_id: [line["kind"] for line in row.items] for row in NoticeMessage.objects.all()
    }
    assert kinds == {ann.pk: ["reminder"], lea.pk: ["escalated"]}


def test_leaving_the_group_hides_its_notices(wait: Wait, ann: User) -> None:
    wait()
    consume_journal()
    assert inbox.unread_count(ann) == 1
    ann.groups.clear()
    assert inbox.unread_count(ann) == 0
    assert not inbox.notices_of(ann).exists()


def test_old_notices_are_deleted(wait: Wait, ann: User) -> None:
    wait()
    consume_journal()
    assert sweeper_hooks.forget_old() == 0
    Notice.objects.update(created_at=Now() - timedelta(days=91))
    assert sweeper_hooks.forget_old() == 1


def test_a_round_without_news_is_two_statements(
    wait: Wait, ann: User, django_assert_num_queries: Any
) -> None:
    watermark = ReadWatermark()
    wait()
    while journal_consumer.read_new(watermark):
        pass
    with django_assert_num_queries(2):
        assert journal_consumer.read_new(watermark) == 0
    wait()
    assert journal_consumer.read_new(watermark)
    assert len(notice_kinds(ann)) == 2


class Reached(ReadWatermark):
    """Waiting for the end of other transactions would count as well."""

    def __init__(self, newest: ExecutionEvent) -> None:
        super().__init__()
        self.newest = newest.pk

    def advance(self, *, patience: float = 0) -> int:
        return self.newest


def test_a_round_with_a_run_that_ended_without_a_hold_is_few_statements(
    start: Start, ann: User, django_assert_max_num_queries: Any
) -> None:
    consume_journal()
    start(echo("a"))
    newest = ExecutionEvent.objects.latest("pk")
    assert newest.kind == "execution_completed"
    with django_assert_max_num_queries(9):
        assert journal_consumer.read_new(Reached(newest))


def test_the_number_of_statements_is_bounded(
    start: Start, ann: User, bob: User, django_assert_max_num_queries: Any
) -> None:
    tasks = [echo(f"t{n}", phase="BEFORE_EXECUTION") for n in range(50)]
    consume_journal()
    start(*tasks)
    newest = ExecutionEvent.objects.latest("pk")
    with django_assert_max_num_queries(25):
        journal_consumer.read_new(Reached(newest))
    assert len(notice_kinds(ann)) == len(notice_kinds(bob)) == 50
