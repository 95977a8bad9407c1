"""Limit on unknown API tokens per address.

A token has 256 random bits, so guessing one is hopeless; the limit makes attempts visible to admins
and tells a misconfigured client to stop.  A good token from the same address keeps working: many
programs may share one address, and refusing them would let any of them shut out the others.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from workflows import conf
from workflows.models import SignInAlert, UnknownTokens

from .sign_in_alerts import create_alert

#: Period in which failed sign-ins and unknown tokens count.
WINDOW_SECONDS = 900

logger = logging.getLogger(__name__)

#: One statement, so that several web processes count every failure once.
_COUNT = """
INSERT INTO workflows_unknowntokens AS seen (address, failures, since)
VALUES (%(address)s, 1, now())
ON CONFLICT (address) DO UPDATE SET
  failures = CASE WHEN seen.since < now() - make_interval(secs => %(window)s)
                  THEN 1 ELSE seen.failures + 1 END,
  since = CASE WHEN seen.since < now() - make_interval(secs => %(window)s)
               THEN now() ELSE seen.since END
RETURNING failures, extract(epoch FROM since - now())::float8 + %(window)s
"""


def count_unknown_token(address: str) -> float:
    """Count a request with an unknown or expired token.

    Returns the seconds that the client has to wait; 0 below the limit.
    """
    most = conf.unknown_tokens_per_address()
    window = WINDOW_SECONDS
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, {"address": address, "window": window})
            failures, left = cursor.fetchone()
        if failures == most + 1:
            logger.warning("too many unknown tokens from %s", address)
            create_alert(
                kind=SignInAlert.Kind.TOKENS,
                address=address,
                failures=failures,
                locked_until=timezone.now() + timedelta(seconds=left),
            )
    return max(left, 1.0) if failures > most else 0.0


def forget_old() -> int:
    """Delete addresses whose window has ended, and return how many."""
    end = timezone.now() - timedelta(seconds=WINDOW_SECONDS)
    return UnknownTokens.objects.filter(since__lt=end).delete()[0]
