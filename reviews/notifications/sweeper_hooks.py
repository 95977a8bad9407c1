"""Sweeper hooks: reminders, expired claims, and the retention of notices."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from reviews.models import (
    Notice,
    NoticeKind,
    NoticeMessage,
    ReviewClaim,
    SlackMessage,
)
from reviews.sockets import broadcasts
from workflows.executions.legal_holds import without_legal_hold
from workflows.journal import sweeper_queries as journal_due
from workflows.models import Hold

from .notify import Notification, notify
from .recipients import EligibleDeciders

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Days after which notices and messages are deleted.
KEEP_DAYS = 90

_BATCH = 50
_LIMIT = 2000
#: A claim that expired longer ago, while no sweeper ran, is not worth a notice.
_MAX_NOTICE_AGE = timedelta(minutes=10)


def remind_due() -> int:
    """Send every reminder that is due, marked in the same transaction; return how many."""
    done = 0
    while done < _LIMIT:
        with transaction.atomic():
            due = journal_due.take_due_reminders(limit=_BATCH)
            if due:
                _remind(dict(due))
        done += len(due)
        if len(due) < _BATCH:
            break
    return done


def _remind(due: dict[str, int]) -> None:
    rows = Hold.objects.filter(pk__in=due).select_related("execution", "claim__user")
    holds = list(rows.defer("payload", "execution__state", "execution__context"))
    deciders = EligibleDeciders((group for hold in holds for group in hold.groups), holds)
    claimants = dict(
        ReviewClaim.objects.filter(hold__in=due, expires_at__gt=Now()).values_list(
            "hold_id", "user_id"
        )
    )
    notify(
        Notification(
            kind=NoticeKind.REMINDER.value,
            hold=hold,
            key=f"reminder:{hold.pk}:{due[hold.pk]}",
            recipients=_reminder_recipients(deciders.for_hold(hold), claimants.get(hold.pk)),
            detail={"expires_at": hold.expires_at.isoformat() if hold.expires_at else None},
            groups=hold.groups,
        )
        for hold in holds
    )


def _reminder_recipients(deciders: list[User], claimant_id: int | None) -> list[User]:
    """Return the decider who claimed the hold, or else all deciders."""
    return [user for user in deciders if user.pk == claimant_id] or deciders


def claims_ended() -> int:
    """Delete expired claims on open holds and notify their owners; return how many.

    One transaction deletes and notifies, so that nobody is notified twice; a heartbeat makes a new
    claim.
    """
    with transaction.atomic():
        rows = list(
            _expired_claims()
            .select_related("hold__execution", "user")
            .select_for_update(skip_locked=True, of=("self",))
            .order_by("pk")[:_LIMIT]
        )
        if rows:
            ReviewClaim.objects.filter(pk__in=[row.pk for row in rows]).delete()
            notify(_claim_ended(row) for row in rows)
    for row in rows:
        broadcasts.hold_activity(row.hold.execution_id, row.hold_id)
    return len(rows)


def _expired_claims() -> QuerySet[ReviewClaim]:
    return ReviewClaim.objects.filter(expires_at__lte=Now(), hold__status="OPEN")


def _claim_ended(row: ReviewClaim) -> Notification:
    late = timezone.now() - row.expires_at > _MAX_NOTICE_AGE
    return Notification(
        kind=NoticeKind.CLAIM_ENDED.value,
        hold=row.hold,
        key=f"claim:{row.hold_id}:{row.expires_at.timestamp():.3f}",
        recipients=[] if late or not row.user.is_active else [row.user],
    )


def forget_old() -> int:
    """Delete notices and finished messages past their retention; return the number of rows."""
    cutoff = Now() - timedelta(days=KEEP_DAYS)
    deleted = 0
    for rows in (
        without_legal_hold(Notice.objects.filter(created_at__lt=cutoff)),
        NoticeMessage.objects.filter(finished_at__lt=cutoff),
        without_legal_hold(SlackMessage.objects.filter(finished_at__lt=cutoff), "hold__execution"),
    ):
        ids = list(rows.values_list("pk", flat=True)[:5000])
        if ids:
            deleted += rows.model.objects.filter(pk__in=ids).delete()[0]
    return deleted
