"""Limits on failed sign-ins: three of them, stored by django-axes in PostgreSQL.

Failures within the window count against
- an account from one address (`sign_in_failures`),
- an address, for whatever accounts it tries (`sign_in_failures_per_address`),
- an account, from wherever it is tried (`sign_in_failures_per_account`).  This limit spares
  addresses from which the person signed in within the last 30 days, so that nobody can keep a
  person out by failing in their name.

A sign-in beyond a limit is refused before the password is looked at, and does not prolong the lock.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.core.mail import mail_admins
from django.db import transaction
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from workflows import conf
from workflows.common.client_address import UNKNOWN
from workflows.models import SignInAlert

#: axes compares failures with one limit; ours differ, so it is given percent of the nearest one.
PERCENT: Final = 100
_KNOWN_FOR: Final = timedelta(days=30)
_ALERTS_PER_MAIL: Final = 50
_FORGET_EVERY: Final = 3600.0
logger = logging.getLogger(__name__)
Kind = SignInAlert.Kind


def account_of(request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> str:
    """The account that a sign-in is for, as failures are counted: AXES_USERNAME_CALLABLE."""
    given = credentials.get("username") if credentials else request.POST.get("username")
    return str(given or "").strip().casefold()[:255]


def window() -> timedelta:
    """How long a failure counts, and so how long a lock lasts at most."""
    return timedelta(seconds=conf.sign_in_lock_seconds())


def window_of(request: HttpRequest | None = None) -> timedelta:
    """`window`, as axes asks for it: AXES_COOLOFF_TIME."""
    return window()


class SignInHandler(AxesDatabaseHandler):
    """axes' storage with the three limits above: AXES_HANDLER."""

    def get_failures(self, request: Any, credentials: Any = None) -> int:
        """How much of the nearest limit is used up, in percent."""
        shares = [share for _, share, _ in self._used(request, credentials)]
        return math.floor(max(shares, default=0.0) * PERCENT)

    def user_login_failed(
        self, sender: Any, credentials: Any, request: Any = None, **kwargs: Any
    ) -> None:
        """Count the failure; an alert when it is the one that reaches a limit."""
        refused = request is not None and getattr(request, "axes_locked_out", False)
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is not None and request.axes_locked_out and not refused:
            self._alert(request, credentials)

    def reset_user_attempts(self, request: Any, credentials: Any = None) -> int:
        """After a sign-in, forget this account's failures from this address.

        The other failures of the address stay: anybody with an account could reset them at will.
        """
        mine = AccessAttempt.objects.filter(
            username=account_of(request, credentials), ip_address=request.axes_ip_address
        )
        return int(mine.delete()[0])

    def _used(self, request: Any, credentials: Any) -> list[tuple[Kind, float, QuerySet[Any]]]:
        """Each limit that binds this sign-in: kind, share of it that is used, its attempts."""
        account, address = account_of(request, credentials), request.axes_ip_address
        recent = AccessAttempt.objects.filter(attempt_time__gte=timezone.now() - window())
        limits = []
        if address == UNKNOWN:
            # Everybody behind a proxy that sends no address would be locked out together.
            logger.warning("a sign-in has no client address: the limit per address is not applied")
        else:
            limits.append(
                (
                    Kind.ADDRESS,
                    conf.sign_in_failures_per_address(),
                    recent.filter(ip_address=address),
                )
            )
        if account:
            mine = recent.filter(username=account)
            limits.append(
                (
                    Kind.ACCOUNT_AND_ADDRESS,
                    conf.sign_in_failures(),
                    mine.filter(ip_address=address),
                )
            )
            if not _is_known(account, address):
                limits.append((Kind.ACCOUNT, conf.sign_in_failures_per_account(), mine))
        return [(kind, _failures(attempts) / most, attempts) for kind, most, attempts in limits]

    def reached(self, request: Any, credentials: Any) -> tuple[Kind, datetime, int] | None:
        """The limit that is reached, when its lock ends and how many failures there were."""
        over = [each for each in self._used(request, credentials) if each[1] >= 1]
        if not over:
            return None
        kind, _, attempts = over[-1]
        newest = attempts.aggregate(newest=Max("attempt_time"))["newest"] or timezone.now()
        return kind, newest + window(), _failures(attempts)

    def _alert(self, request: Any, credentials: Any) -> None:
        found = self.reached(request, credentials)
        if found is None:
            return
        kind, until, failures = found
        SignInAlert.objects.create(
            kind=kind,
            account=account_of(request, credentials),
            address=request.axes_ip_address,
            failures=failures,
            locked_until=until,
        )


def _failures(attempts: QuerySet[Any]) -> int:
    return int(attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0)


def _is_known(account: str, address: str) -> bool:
    """Whether this account signed in from this address lately."""
    since = timezone.now() - _KNOWN_FOR
    rows = AccessLog.objects.filter(ip_address=address, attempt_time__gte=since)
    return bool(rows.filter(username__iexact=account).exists())


class SignInLimits(AxesStandaloneBackend):
    """The first authentication backend: refuses a sign-in beyond a limit before any password."""

    def authenticate(self, request: HttpRequest | None, *args: Any, **kwargs: Any) -> None:
        """None, or PermissionDenied; code without a request (a shell) is not limited."""
        if request is not None:
            super().authenticate(request, *args, **kwargs)


def is_locked(request: HttpRequest, account: str = "") -> bool:
    """Whether a limit is reached for `account`, or for the address when it is ""."""
    return not AxesProxyHandler.is_allowed(request, {"username": account})


def note_failure(request: HttpRequest, account: str = "") -> None:
    """Count a failed sign-in, or a failed code, that did not go through `authenticate`."""
    user_login_failed.send(__name__, credentials={"username": account}, request=request)


def locked_page(
    request: HttpRequest,
    original_response: HttpResponse | None = None,
    credentials: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """429: too many failures, when to try again, and who can unlock.  AXES_LOCKOUT_CALLABLE.

    It says the same whether or not there is such an account.
    """
    handler = AxesProxyHandler.get_implementation()
    found = handler.reached(request, credentials)
    until = found[1] if found else timezone.now() + window()
    seconds = max(1, math.ceil((until - timezone.now()).total_seconds()))
    about = {"until": until, "minutes": math.ceil(seconds / 60)}
    response = render(request, "registration/locked.html", about, status=429)
    response["Retry-After"] = str(seconds)
    response["Cache-Control"] = "no-store"
    return response


def unlock(*, alerts: QuerySet[SignInAlert]) -> int:
    """Forget the failures behind these alerts, so that their locks end; how many rows."""
    count = 0
    for kind, account, address in alerts.values_list("kind", "account", "address"):
        rows = {
            Kind.ACCOUNT: AccessAttempt.objects.filter(username=account),
            Kind.ADDRESS: AccessAttempt.objects.filter(ip_address=address),
            Kind.ACCOUNT_AND_ADDRESS: AccessAttempt.objects.filter(
                username=account, ip_address=address
            ),
        }.get(Kind(kind), AccessAttempt.objects.none())
        count += rows.delete()[0]
    alerts.filter(locked_until__gt=timezone.now()).update(locked_until=timezone.now())
    return count


def mail_alerts() -> int:
    """Mail new alerts to ADMINS, many in one mail; the sweeper calls this.  How many."""
    if not settings.ADMINS:
        return 0
    with transaction.atomic():
        waiting = SignInAlert.objects.select_for_update(skip_locked=True).filter(mailed_at=None)
        alerts = list(waiting.order_by("pk"))
        if not alerts:
            return 0
        lines = [
            f"{each.created_at:%Y-%m-%d %H:%M:%S} UTC  {each.get_kind_display()}  "
            f"account {each.account!r}, address {each.address}, {each.failures} failures, "
            f"locked until {each.locked_until:%H:%M:%S}"
            for each in alerts[:_ALERTS_PER_MAIL]
        ]
        if len(alerts) > _ALERTS_PER_MAIL:
            lines.append(f"and {len(alerts) - _ALERTS_PER_MAIL} more")
        where = f"{conf.site_url().rstrip('/')}/admin/workflows/signinalert/"
        body = "\n".join([*lines, "", f"To unlock: {where}"])
        mail_admins(f"Sign-in limits reached: {len(alerts)}", body)
        SignInAlert.objects.filter(pk__in=[each.pk for each in alerts]).update(
            mailed_at=timezone.now()
        )
    return len(alerts)


def forget_old() -> int:
    """Remove successful sign-ins that no longer make an address known, and old failures.

    Once an hour in a process: axes has no index on the time of an attempt, so each look reads both
    tables whole.
    """
    global _forget_at
    if time.monotonic() < _forget_at:
        return 0
    now = timezone.now()
    signed_in = AccessLog.objects.filter(attempt_time__lt=now - _KNOWN_FOR)
    failed = AccessAttempt.objects.filter(attempt_time__lt=now - window())
    gone = int(signed_in.delete()[0]) + int(failed.delete()[0])
    _forget_at = time.monotonic() + _FORGET_EVERY
    return gone


#: When this process looks for old attempts next, by its monotonic clock.
_forget_at = 0.0
