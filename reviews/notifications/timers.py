"""What time tells people: a review still waits, a claim ran out.  Hooks of the sweeper."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from reviews import conf
from reviews.models import ReviewClaim
from reviews.models.notifications import Notice, NoticeKind, NoticeMessage
from reviews.sockets import change_receiver
from workflows.journal import due as journal_due
from workflows.models import Hold

from .audience import Members
from .notify import Telling, tell

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_AT_ONCE = 50
_MOST = 2000
#: Older than this, after the sweeper was away, it is no news.
_WORTH_TELLING = timedelta(minutes=10)


def remind_due() -> int:
    """Give every reminder that is due; how many.  Marked and told in one transaction."""
    done = 0
    while done < _MOST:
        with transaction.atomic():
            due = journal_due.take_due_reminders(limit=_AT_ONCE)
            if due:
                _remind(dict(due))
        done += len(due)
        if len(due) < _AT_ONCE:
            break
    return done


def _remind(due: dict[str, int]) -> None:
    rows = Hold.objects.filter(pk__in=due).select_related("execution", "claim__user")
    holds = list(rows.defer("payload", "execution__state", "execution__context"))
    members = Members((group for hold in holds for group in hold.groups), holds)
    claimed = dict(
        ReviewClaim.objects.filter(hold__in=due, expires_at__gt=Now()).values_list(
            "hold_id", "user_id"
        )
    )
    tell(
        Telling(
            kind=NoticeKind.REMINDER.value,
            hold=hold,
            key=f"reminder:{hold.pk}:{due[hold.pk]}",
            to=_reminded(members.who_may_decide(hold), claimed.get(hold.pk)),
            detail={"expires_at": hold.expires_at.isoformat() if hold.expires_at else None},
            groups=hold.groups,
        )
        for hold in holds
    )


def _reminded(people: list[User], claimed_by: int | None) -> list[User]:
    """Whoever has claimed it, else everybody who may decide it."""
    return [each for each in people if each.pk == claimed_by] or people


def claims_ended() -> int:
    """Clear away claims on open holds that ran out, and tell whose they were; how many.

    The row goes with the telling, so that nobody is told twice; a heartbeat makes a new claim.
    """
    ended = ReviewClaim.objects.filter(expires_at__lte=Now(), hold__status="OPEN")
    with transaction.atomic():
        rows = list(
            ended.select_related("hold__execution", "user")
            .select_for_update(skip_locked=True, of=("self",))
            .order_by("pk")[:_MOST]
        )
        if rows:
            ReviewClaim.objects.filter(pk__in=[row.pk for row in rows]).delete()
            tell(_ended(row) for row in rows)
    for row in rows:
        change_receiver.touched(row.hold.execution_id, row.hold_id)
    return len(rows)


def _ended(row: ReviewClaim) -> Telling:
    late = timezone.now() - row.expires_at > _WORTH_TELLING
    return Telling(
        kind=NoticeKind.CLAIM_ENDED.value,
        hold=row.hold,
        key=f"claim:{row.hold_id}:{row.expires_at.timestamp():.3f}",
        to=[] if late or not row.user.is_active else [row.user],
    )


def forget_old() -> int:
    """Delete what was told long ago; how many rows went."""
    end = Now() - timedelta(days=conf.notice_keep_days())
    gone = 0
    for rows in (
        Notice.objects.filter(created_at__lt=end),
        NoticeMessage.objects.filter(finished_at__lt=end),
    ):
        ids = list(rows.values_list("pk", flat=True)[:5000])
        if ids:
            gone += rows.model.objects.filter(pk__in=ids).delete()[0]
    return gone
