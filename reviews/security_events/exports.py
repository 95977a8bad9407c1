"""Send security events to each destination: at least once, and in order.

Events are numbered after their commit.  Each destination has a cursor, which moves in the
transaction that locks it: two sweepers never send to one destination at a time, and a crash after
sending repeats the batch, with the same `metadata.uid`.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import Min, Q
from django.db.models.functions import Now
from django.utils import timezone

from reviews import conf
from reviews.models import SecurityEvent, SecurityExport
from reviews.notifications.polling import poll
from workflows.common.crashpoints import crashpoint
from workflows.realtime import work_hints

from .destinations import NotDelivered, Send, configured

logger = logging.getLogger(__name__)

BATCH: Final = 200
_MAX_BACKOFF_SECONDS: Final = 300
_DELETE_BATCH: Final = 5000
#: Key of the advisory lock under which events are numbered.
_NUMBERING: Final = 0x486F6C66
#: Retention keeps no event whose position is above a cursor, so cursors count too.
_NUMBER = """
WITH new AS (
    SELECT id, row_number() OVER (ORDER BY id) AS place
      FROM reviews_securityevent WHERE position IS NULL ORDER BY id LIMIT 5000),
last AS (
    SELECT greatest(
        coalesce((SELECT max(position) FROM reviews_securityevent), 0),
        coalesce((SELECT max(position) FROM reviews_securityexport), 0)) AS position)
UPDATE reviews_securityevent AS event SET position = last.position + new.place
  FROM new, last WHERE event.id = new.id
"""


def run(stop: threading.Event) -> None:
    """Export until stopped, if a destination is configured."""
    if configured():
        # Events are stored by triggers too, which send no hint.
        poll(export_due, stop, group=work_hints.WORK, due=lambda: 0)


def export_due() -> int:
    """Send the next batch to each destination; return how many events were sent."""
    destinations = configured()
    if not destinations:
        return 0
    number_new_events()
    return sum(export(name, send) for name, send in destinations.items())


def number_new_events() -> None:
    """Give committed events without a position the next ones."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_NUMBERING])
        cursor.execute(_NUMBER)


def export(name: str, send: Send) -> int:
    """Send the next events to one destination and move its cursor; return how many."""
    SecurityExport.objects.get_or_create(name=name)
    with transaction.atomic():
        due = Q(retry_at=None) | Q(retry_at__lte=Now())
        rows = SecurityExport.objects.select_for_update(skip_locked=True)
        row = rows.filter(due, name=name).first()
        if row is None:
            return 0
        events = list(
            SecurityEvent.objects.filter(position__gt=row.position).order_by("position")[:BATCH]
        )
        if not events:
            return 0
        try:
            send(events)
        except NotDelivered as error:
            _record_failure(row, str(error))
            return 0
        except Exception as error:
            # Its text may name credentials.
            _record_failure(row, f"unexpected {type(error).__name__}")
            return 0
        crashpoint("security_events.sent")
        SecurityExport.objects.filter(pk=row.pk).update(
            position=events[-1].position, sent_at=Now(), failures=0, retry_at=None, error=""
        )
        return len(events)


def _record_failure(row: SecurityExport, error: str) -> None:
    logger.warning("security events did not reach their %s: %s", row.name, error)
    seconds = min(_MAX_BACKOFF_SECONDS, 2 ** min(row.failures, 10))
    SecurityExport.objects.filter(pk=row.pk).update(
        failures=row.failures + 1, retry_at=Now() + timedelta(seconds=seconds), error=error
    )


def delete_old() -> int:
    """Delete events after `siem_keep_days` that every configured destination has received."""
    old = Q(at__lt=timezone.now() - timedelta(days=conf.siem_keep_days()))
    names = list(configured())
    if names:
        rows = SecurityExport.objects.filter(name__in=names)
        received = rows.aggregate(least=Min("position"))["least"]
        old &= Q(position__lte=received if rows.count() == len(names) else 0)
    events = SecurityEvent.objects.filter(old).order_by("id").values_list("pk", flat=True)
    ids = list(events[:_DELETE_BATCH])
    if ids:
        SecurityEvent.objects.filter(pk__in=ids).delete()
    return len(ids)


def waiting(row: SecurityExport) -> tuple[int, float]:
    """Return how many events a destination has not received, and the age of the oldest in seconds.

    Events that have no position yet count too.
    """
    events = SecurityEvent.objects.filter(Q(position__gt=row.position) | Q(position=None))
    oldest = events.aggregate(oldest=Min("at"))["oldest"]
    age = (timezone.now() - oldest).total_seconds() if oldest else 0.0
    return events.count(), age
