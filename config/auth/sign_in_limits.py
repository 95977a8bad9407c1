"""Three limits on failed sign-ins, stored by django-axes in PostgreSQL.

Failures within the window count against
- an account and an address together (`sign_in_failures`),
- an address, for all accounts (`sign_in_failures_per_address`),
- an account, from all addresses (`sign_in_failures_per_account`).  This limit does not apply to
  addresses from which the person signed in within the last 30 days, so that an attacker cannot lock
  them out.

A sign-in beyond a limit is refused before the password is checked and does not extend the lock.
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
from workflows.models import SecurityEvent, SignInAlert
from workflows.permissions.sign_in_alerts import create_alert
from workflows.permissions.unknown_token_limit import WINDOW_SECONDS
from workflows.security_events.services import record_security_event

#: axes compares failures with a single limit; it is given the percentage of the nearest of three.
PERCENT: Final = 100
_KNOWN_FOR: Final = timedelta(days=30)
_ALERTS_PER_MAIL: Final = 50
_DELETE_INTERVAL: Final = 3600.0
logger = logging.getLogger(__name__)
Kind = SignInAlert.Kind


def account_of(request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> str:
    """Return the normalized account name that failures count against (AXES_USERNAME_CALLABLE)."""
    username = credentials.get("username") if credentials else request.POST.get("username")
    return str(username or "").strip().casefold()[:255]


def window() -> timedelta:
    """Return how long a failure counts, which is the longest lock."""
    return timedelta(seconds=WINDOW_SECONDS)


def window_of(request: HttpRequest | None = None) -> timedelta:
    """Return `window` to axes (AXES_COOLOFF_TIME)."""
    return window()


class SignInHandler(AxesDatabaseHandler):
    """axes' database handler with the three limits above (AXES_HANDLER).

    It also records sign-ins, failures and sign-outs as security events.
    """

    def get_failures(self, request: Any, credentials: Any = None) -> int:
        """Return how much of the nearest limit is used, in percent."""
        shares = [share for _, share, _ in self._used(request, credentials)]
        return math.floor(max(shares, default=0.0) * PERCENT)

    def user_login_failed(
        self, sender: Any, credentials: Any, request: Any = None, **kwargs: Any
    ) -> None:
        """Count the failure and create an alert if it reaches a limit."""
        refused = request is not None and getattr(request, "axes_locked_out", False)
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is None or refused:
            return
        record_security_event(
            kind=SecurityEvent.Kind.SIGN_IN_FAILED,
            actor=account_of(request, credentials),
            address=request.axes_ip_address or "",
            details={"path": request.path},
        )
        if request.axes_locked_out:
            self._alert(request, credentials)

    def user_logged_in(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        super().user_logged_in(sender, request, user, **kwargs)
        record_security_event(
            kind=SecurityEvent.Kind.SIGN_IN,
            actor=user,
            address=request.axes_ip_address or "",
            details={"path": request.path},
        )

    def user_logged_out(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        super().user_logged_out(sender, request, user, **kwargs)
        if user is not None:
            record_security_event(
                kind=SecurityEvent.Kind.SIGN_OUT,
                actor=user,
                address=request.axes_ip_address or "",
            )

    def reset_user_attempts(self, request: Any, credentials: Any = None) -> int:
        """Delete the account's failures from this address after a successful sign-in.

        Other failures of the address stay: otherwise anyone with an account could reset them.
        """
        attempts = AccessAttempt.objects.filter(
            username=account_of(request, credentials), ip_address=request.axes_ip_address
        )
        return int(attempts.delete()[0])

    def _used(self, request: Any, credentials: Any) -> list[tuple[Kind, float, QuerySet[Any]]]:
        """Return each limit of this sign-in: kind, used share, counted attempts."""
        account, address = account_of(request, credentials), request.axes_ip_address
        recent = AccessAttempt.objects.filter(attempt_time__gte=timezone.now() - window())
        limits = []
        if address == UNKNOWN:
            # Everyone behind a proxy that sends no address would be locked together.
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
            of_account = recent.filter(username=account)
            limits.append(
                (
                    Kind.ACCOUNT_AND_ADDRESS,
                    conf.sign_in_failures(),
                    of_account.filter(ip_address=address),
                )
            )
            if not _is_known(account, address):
                limits.append((Kind.ACCOUNT, conf.sign_in_failures_per_account(), of_account))
        return [(kind, _failures(attempts) / limit, attempts) for kind, limit, attempts in limits]

    def reached(self, request: Any, credentials: Any) -> tuple[Kind, datetime, int] | None:
        """Return the reached limit, the end of its lock and the number of failures, or None."""
        over = [each for each in self._used(request, credentials) if each[1] >= 1]
        if not over:
            return None
        kind, _, attempts = over[-1]
        newest = attempts.aggregate(newest=Max("attempt_time"))["newest"] or timezone.now()
        return kind, newest + window(), _failures(attempts)

    def _alert(self, request: Any, credentials: Any) -> None:
        reached = self.reached(request, credentials)
        if reached is None:
            return
        kind, until, failures = reached
        create_alert(
            kind=kind,
            account=account_of(request, credentials),
            address=request.axes_ip_address,
            failures=failures,
            locked_until=until,
        )


def _failures(attempts: QuerySet[Any]) -> int:
    return int(attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0)


def _is_known(account: str, address: str) -> bool:
    """Whether this account signed in from this address within the last 30 days."""
    since = timezone.now() - _KNOWN_FOR
    rows = AccessLog.objects.filter(ip_address=address, attempt_time__gte=since)
    return bool(rows.filter(username__iexact=account).exists())


class SignInLimits(AxesStandaloneBackend):
    """The first authentication backend: refuses a sign-in beyond a limit before the password."""

    def authenticate(self, request: HttpRequest | None, *args: Any, **kwargs: Any) -> None:
        """Raise PermissionDenied beyond a limit; calls without a request are not limited."""
        if request is not None:
            super().authenticate(request, *args, **kwargs)


def is_locked(request: HttpRequest, account: str = "") -> bool:
    """Whether a limit is reached for `account`, or for the address when it is ""."""
    return not AxesProxyHandler.is_allowed(request, {"username": account})


def note_failure(request: HttpRequest, account: str = "") -> None:
    """Count a failed sign-in or code that did not go through `authenticate`."""
    user_login_failed.send(__name__, credentials={"username": account}, request=request)


def locked_page(
    request: HttpRequest,
    original_response: HttpResponse | None = None,
    credentials: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """Return the 429 page with the time to retry (AXES_LOCKOUT_CALLABLE).

    The page does not reveal whether the account exists.
    """
    handler = AxesProxyHandler.get_implementation()
    reached = handler.reached(request, credentials)
    until = reached[1] if reached else timezone.now() + window()
    seconds = max(1, math.ceil((until - timezone.now()).total_seconds()))
    context = {"until": until, "minutes": math.ceil(seconds / 60)}
    response = render(request, "registration/locked.html", context, status=429)
    response["Retry-After"] = str(seconds)
    response["Cache-Control"] = "no-store"
    return response


def unlock(*, alerts: QuerySet[SignInAlert]) -> int:
    """Delete the failures of these alerts, which ends their locks; return the number of rows."""
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
    """Mail new alerts to ADMINS in one e-mail; return how many.  Called by the sweeper."""
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
    """Delete sign-ins older than 30 days and failures outside the window.

    At most once an hour per process: axes has no index on the time, so both tables are scanned.
    """
    global _next_delete_at
    if time.monotonic() < _next_delete_at:
        return 0
    now = timezone.now()
    signed_in = AccessLog.objects.filter(attempt_time__lt=now - _KNOWN_FOR)
    failed = AccessAttempt.objects.filter(attempt_time__lt=now - window())
    deleted = int(signed_in.delete()[0]) + int(failed.delete()[0])
    _next_delete_at = time.monotonic() + _DELETE_INTERVAL
    return deleted


#: Monotonic time of the next deletion in this process.
_next_delete_at = 0.0
