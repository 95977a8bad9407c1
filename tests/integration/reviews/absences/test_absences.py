"""While a person is away, their delegate sees, is notified of and decides their reviews."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from reviews.absences.services import end_absence, set_absence
from reviews.audit.history import records
from reviews.audit.records import canonical_text
from reviews.components.labels import record_sentence
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.models import DeniedAttempt, HumanReviewRecord, Notice
from reviews.notifications import notice_text
from reviews.people.services import set_active
from reviews.queue import claims
from reviews.queue.selectors import Viewer, queue
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.support.pages import browser, open_page
from workflows.executions import access
from workflows.models import Absence, Hold, SecurityEvent
from workflows.permissions.roles import ensure_roles

pytestmark = pytest.mark.django_db

Away = Callable[..., Absence]


@pytest.fixture
def away() -> Away:
    """`away(ann, ben)`: Ben stands in for Ann from an hour ago for a day."""

    def set_it(user: User, delegate: User, *, begins: float = -1, ends: float = 23) -> Absence:
        now = timezone.now()
        return Absence.objects.create(
            user=user,
            delegate=delegate,
            begins_at=now + timedelta(hours=begins),
            ends_at=now + timedelta(hours=ends),
            created_by=user.get_username(),
        )

    return set_it


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    return make_user("ann", "legal")


@pytest.fixture
def ben(make_user: MakeUser) -> User:
    """In another group than Ann."""
    return make_user("ben", "reviewer")


@pytest.fixture
def wait(start: Start, ann: User) -> Callable[..., Hold]:
    """A hold for the group `legal`."""

    def go(**fields: Any) -> Hold:
        actor = {"actor": fields.pop("actor")} if "actor" in fields else {}
        task = echo("a", phase="BEFORE_EXECUTION", groups=["legal"], **fields)
        return only_hold(start(task, **actor))

    return go


def sees(user: User, hold: Hold) -> bool:
    listed = hold in queue(Viewer(user), "me")
    assert listed == access.visible_to(user).filter(pk=hold.execution_id).exists()
    return listed


def test_a_delegate_decides_in_the_time_of_the_absence_only(
    wait: Any, away: Away, ann: User, ben: User
) -> None:
    hold = wait()
    with pytest.raises(services.HoldNotFound):
        decide(hold, ben)
    for times in ({"begins": 1}, {"begins": -2, "ends": -1}):
        away(ann, ben, **times)
        assert not sees(ben, hold)
        with pytest.raises(services.HoldNotFound):
            decide(hold, ben)
    absence = away(ann, ben)
    assert sees(ben, hold)
    end_absence(actor=ann, absence=absence)
    assert not sees(ben, hold)
    away(ann, ben)
    record = decide(hold, ben).record
    assert (record.actor, record.on_behalf_of) == ("ben", "ann")
    assert record_sentence(record, short=True) == "ben (for ann) approved echo"
    assert '"on_behalf_of":"ann"' in record.canonical
    assert canonical_text(HumanReviewRecord.objects.get()) == record.canonical
    assert record in records(ben)


def test_a_decision_of_one_s_own_names_nobody_else(
    wait: Any, away: Away, ann: User, ben: User
) -> None:
    away(ben, ann)
    record = decide(wait(), ann).record
    assert (record.on_behalf_of, "on_behalf_of" in record.canonical) == ("", False)


def test_four_eyes_holds_for_both(wait: Any, away: Away, make_user: MakeUser, ben: User) -> None:
    starter = make_user("sue", "legal", "operator")
    away(starter, ben)
    hold = wait(actor=starter)
    assert sees(ben, hold)
    with pytest.raises(NotAllowed, match="You stand in for sue, who may not approve"):
        decide(hold, ben)
    assert DeniedAttempt.objects.get().actor == "ben"
    # The delegate started the run.
    other = make_user("leo", "legal")
    operator = make_user("oda", "operator")
    away(other, operator)
    own = wait(actor=operator)
    with pytest.raises(NotAllowed, match="You started this run"):
        decide(own, operator)
    # Both may reject it, as people who started a run may.
    assert decide(own, operator, "REJECT", comment="no").record.on_behalf_of == "leo"


def test_a_quorum_counts_an_absent_person_once(
    wait: Any, away: Away, make_user: MakeUser, ann: User, ben: User
) -> None:
    lea = make_user("lea", "legal")
    hold = wait(quorum=2)
    first = away(ann, ben)
    decide(hold, ben)
    with pytest.raises(Conflict) as again:
        decide(hold, ben)
    assert again.value.code == "already_voted"
    with pytest.raises(Conflict, match="ann has approved this already"):
        decide(hold, ann)
    end_absence(actor=ann, absence=first)
    cid = make_user("cid", "reviewer")
    away(ann, cid)
    with pytest.raises(Conflict, match="ann has approved this already"):
        decide(hold, cid)
    # Lea stands in for Ann and has a vote of her own, not two.
    Absence.objects.all().delete()
    away(ann, lea)
    assert decide(hold, lea).record.on_behalf_of == ""
    hold.refresh_from_db()
    assert (hold.status, hold.approvals) == (Hold.Status.APPROVED, ["ben", "lea"])


def test_a_person_who_voted_has_no_second_vote_by_delegate(
    wait: Any, away: Away, ann: User, ben: User
) -> None:
    hold = wait(quorum=2)
    decide(hold, ann)
    away(ann, ben)
    with pytest.raises(Conflict, match="ann has approved this already"):
        decide(hold, ben)


def test_delegations_do_not_chain(
    wait: Any, away: Away, make_user: MakeUser, ann: User, ben: User
) -> None:
    cid = make_user("cid", "reviewer")
    away(ann, ben)
    away(ben, cid)
    hold = wait()
    assert (sees(ben, hold), sees(cid, hold)) == (True, False)
    with pytest.raises(services.HoldNotFound):
        decide(hold, cid)


def test_a_delegate_gets_no_role(wait: Any, away: Away, make_user: MakeUser, ben: User) -> None:
    admin = make_user("ada", "admin", "operator", "auditor")
    execution = wait().execution
    away(admin, ben)
    assert access.roles_of(ben) == {"reviewer"}
    assert not access.visible_to(ben).filter(pk=execution.pk).exists()
    assert not access.may_operate(ben, execution)


@pytest.mark.parametrize("group", ["auditor", ""])
def test_auditors_and_people_who_left_decide_nothing(
    wait: Any, away: Away, make_user: MakeUser, ann: User, group: str
) -> None:
    delegate = make_user("del", *([group] if group else []), is_active=bool(group))
    away(ann, delegate)
    with pytest.raises((NotAllowed, services.HoldNotFound)):
        decide(wait(), delegate)
    assert not HumanReviewRecord.objects.exists()


def test_a_delegate_of_somebody_who_left_decides_nothing(
    wait: Any, away: Away, ann: User, ben: User
) -> None:
    hold = wait()
    away(ann, ben)
    ann.is_active = False
    ann.save()
    with pytest.raises(services.HoldNotFound):
        decide(hold, ben)


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
def test_reviews_go_back_when_the_delegate_leaves(
    wait: Any, away: Away, make_user: MakeUser, ann: User, ben: User, how: str
) -> None:
    away(ann, ben)
    hold = wait()
    if how == "deactivated":
        ben.is_active = False
        ben.save()
    else:
        ben.delete()
    page = open_page(ann, "/absences/").text
    assert ("the account of ben is deactivated" in page) == (how == "deactivated")
    assert sees(ann, hold)
    assert browser(ann).get(f"/review/{hold.execution_id}/{hold.pk}/").status_code == 200
    consume_journal()
    assert [each.user.username for each in Notice.objects.filter(hold=hold)] == ["ann"]
    assert decide(hold, ann).record.on_behalf_of == ""


def test_an_absence_ends_with_the_account_of_its_delegate(
    wait: Any, away: Away, make_user: MakeUser, ann: User, ben: User
) -> None:
    admin = make_user("boss", "admin", is_superuser=True)
    away(ann, ben)
    hold = wait()
    set_active(actor=admin, person=ben, active=False)
    set_active(actor=admin, person=ben, active=True)
    assert not sees(User.objects.get(pk=ben.pk), hold)
    page = open_page(ann, "/absences/").text
    assert "Past absences" in page
    assert "ended by boss" in page


def test_delegates_are_notified(
    transactional_db: None, wait: Any, away: Away, ann: User, ben: User, operator: User
) -> None:
    away(ann, ben)
    hold = wait(timeout_seconds=600, reminders=[{"after_seconds": 60}])
    consume_journal()
    (notice,) = Notice.objects.filter(user=ben)
    sentence = notice_text.sentence(notice.kind, notice.hold, notice.actor, notice.detail)
    assert sentence.startswith("For ann: Waits for you: ")
    assert Notice.objects.filter(user=ann).count() == 1
    assert sentence in open_page(ben, "/notifications/").text
    claims.assign(hold_id=hold.pk, user=operator, to="ann")
    assert Notice.objects.filter(user=ben, kind="claim_given").count() == 1
    # A run that the delegate may not decide is no news to them.
    wait(actor=ann)
    consume_journal()
    assert Notice.objects.filter(user=ben).count() == 2


def test_a_delegate_takes_over_a_claim(wait: Any, away: Away, ann: User, ben: User) -> None:
    hold = wait()
    claims.claim(hold_id=hold.pk, user=ann)
    away(ann, ben)
    assert claims.claim(hold_id=hold.pk, user=ben).user == ben
    with pytest.raises(Conflict):
        claims.claim(hold_id=hold.pk, user=ann)


def test_what_cannot_be_set(away: Away, make_user: MakeUser, ann: User, ben: User) -> None:
    aud, gone, idle = (
        make_user("aud", "auditor"),
        make_user("gone", "reviewer", is_active=False),
        make_user("idle"),
    )
    now = timezone.now()
    hour = timedelta(hours=1)
    table: list[tuple[Any, timedelta, timedelta, str, str]] = [
        (None, hour, 2 * hour, "delegate", "no person"),
        (ann, hour, 2 * hour, "delegate", "another person"),
        (aud, hour, 2 * hour, "delegate", "auditor"),
        (gone, hour, 2 * hour, "delegate", "active"),
        (idle, hour, 2 * hour, "delegate", "group"),
        (ben, hour, hour, "ends_at", "after"),
        (ben, -2 * hour, -hour, "ends_at", "future"),
        (ben, hour, 24 * 400 * hour, "ends_at", "366 days"),
    ]
    for delegate, begins, ends, path, words in table:
        with pytest.raises(ReviewInvalid) as invalid:
            set_absence(
                actor=ann, user=ann, delegate=delegate, begins_at=now + begins, ends_at=now + ends
            )
        (error,) = invalid.value.errors
        assert (error.path, words in error.message) == (path, True), error
    times = {"begins_at": now, "ends_at": now + 2 * hour}
    set_absence(actor=ann, user=ann, delegate=ben, **times)
    for user, delegate, path in ((ann, ben, "begins_at"), (ben, ann, "delegate")):
        with pytest.raises(ReviewInvalid) as invalid:
            set_absence(actor=user, user=user, delegate=delegate, **times)
        assert [each.path for each in invalid.value.errors] == [path]
    later = {"begins_at": now + 3 * hour, "ends_at": now + 4 * hour}
    with pytest.raises(NotAllowed):
        set_absence(actor=ben, user=ann, delegate=ben, **later)
    assert Absence.objects.count() == 1


def test_the_page(wait: Any, ann: User, ben: User) -> None:
    hold = wait()
    now = timezone.now()
    fields = {
        "begins_at": (now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M"),
        "ends_at": (now + timedelta(hours=9)).strftime("%Y-%m-%dT%H:%M"),
        "delegate": "ben",
    }
    client = browser(ann)
    wrong = client.post("/absences/", {**fields, "ends_at": fields["begins_at"]})
    assert (wrong.status_code, Absence.objects.count()) == (422, 0)
    assert b"Must be after the beginning." in wrong.content
    assert client.post("/absences/", {**fields, "delegate": "nobody"}).status_code == 422
    assert client.post("/absences/", fields).status_code == 303
    absence = Absence.objects.get()
    assert "ben decides for you" in open_page(ann, "/absences/").text
    assert "You stand in for" in open_page(ben, "/absences/").text
    page = open_page(ben, f"/review/{hold.execution_id}/{hold.pk}/")
    assert "You decide for ann, who is away." in page.text
    assert browser(ben).post(f"/absences/{absence.pk}/end/").status_code == 404
    assert client.post(f"/absences/{absence.pk}/end/").status_code == 303
    absence.refresh_from_db()
    assert (absence.cancelled_by, absence.cancelled_at is not None) == ("ann", True)
    assert "ended by ann" in open_page(ann, "/absences/").text


def test_admins_set_absences_for_others(make_user: MakeUser, ann: User, ben: User) -> None:
    admin = make_user("ada", "admin", is_staff=True)
    ensure_roles()
    now = timezone.now()
    fields: dict[str, Any] = {"user": ann.pk, "delegate": ben.pk}
    for name, at in (("begins_at", now), ("ends_at", now + timedelta(days=2))):
        fields[f"{name}_0"], fields[f"{name}_1"] = at.strftime("%Y-%m-%d"), at.strftime("%H:%M:%S")
    client = browser(admin)
    form = client.get("/admin/workflows/absence/add/").text
    labels = ("Begins at: date", "Begins at: time", "Ends at: date", "Ends at: time")
    assert [label for label in labels if f'aria-label="{label}"' not in form] == []
    wrong = client.post("/admin/workflows/absence/add/", {**fields, "delegate": ann.pk})
    assert (wrong.status_code, b"Must be another person." in wrong.content) == (200, True)
    assert client.post("/admin/workflows/absence/add/", fields).status_code == 302
    absence = Absence.objects.get()
    assert (absence.user, absence.delegate, absence.created_by) == (ann, ben, "ada")
    action = {"action": "end_absences", "_selected_action": [absence.pk]}
    assert client.post("/admin/workflows/absence/", action).status_code == 302
    absence.refresh_from_db()
    assert absence.cancelled_by == "ada"


def test_an_admin_sets_no_absence_in_secret(
    make_user: MakeUser,
    ann: User,
    ben: User,
    mailoutbox: list[Any],
    django_capture_on_commit_callbacks: Any,
) -> None:
    """Not with themselves as the delegate, not in the past, and never without the person."""
    admin = make_user("ada", "admin", "legal", is_staff=True)
    ensure_roles()
    User.objects.filter(pk=ann.pk).update(email="ann@example.com")
    ann.refresh_from_db()
    now = timezone.now()
    times = {"begins_at": now, "ends_at": now + timedelta(days=1)}
    refused: dict[str, dict[str, Any]] = {
        "delegate": {"delegate": admin, **times},
        "begins_at": {"delegate": ben, **times, "begins_at": now - timedelta(hours=1)},
    }
    for field, fields in refused.items():
        with pytest.raises(ReviewInvalid) as caught:
            set_absence(actor=admin, user=ann, **fields)
        assert [each.path for each in caught.value.errors] == [field]
    assert not Absence.objects.exists()
    with django_capture_on_commit_callbacks(execute=True):
        absence = set_absence(actor=admin, user=ann, delegate=ben, **times)
    assert end_absence(actor=admin, absence=absence)
    changes = SecurityEvent.objects.filter(kind="changed", actor="ada").order_by("id")
    assert [each.details["change"].partition(" from ")[0] for each in changes] == [
        "ben decides for ann",
        "Ended. ben decides for ann",
    ]
    (mail,) = mailoutbox
    assert (mail.to, "ben decides for ann" in mail.body) == (["ann@example.com"], True)
    # One's own absence is nobody else's business.
    with django_capture_on_commit_callbacks(execute=True):
        set_absence(actor=ann, user=ann, delegate=ben, **times)
    assert (changes.count(), len(mailoutbox)) == (2, 1)
