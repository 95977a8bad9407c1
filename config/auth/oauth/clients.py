"""Which clients may register themselves, and for how long unused ones are kept."""

from __future__ import annotations

import ipaddress
import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from oauth2_provider.models import clear_expired, get_application_model

from workflows.api.throttling import is_attempt_allowed
from workflows.common.client_address import address_of, client_address

from .client_events import record_deleted

_KEPT_UNUSED = timedelta(days=1)
#: Seconds between two rounds of cleaning up, and in which an address's attempts count.
_HOUR = 3600


def is_safe_redirect(uri: str) -> bool:
    """Whether a code may be sent to `uri`: over https, or to this machine of the user's.

    Addresses are stored in one text with spaces between them, so an address with one would become
    two, of which only the first was checked.
    """
    if not uri.isprintable() or any(map(str.isspace, uri)):
        return False
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and (host == "localhost" or _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RegistrationAllowed:
    """Dynamic registration: limited per hour."""

    def has_permission(self, request: HttpRequest) -> bool:
        return _may_register(address_of(request))


class DocumentAllowed:
    """Client id metadata documents: limited like dynamic registration.

    django-oauth-toolkit fetches the document without following redirects, and from public
    addresses only. It asks before each fetch, so fetches that fail count too; a known client whose
    document may not be fetched again keeps the last one.
    """

    def has_permission(self, request: Any, client_id: str) -> bool:
        # The toolkit passes the headers as the WSGI environment names them.
        remote, forwarded = (
            str(request.headers.get(name) or "") for name in ("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR")
        )
        return _may_register(client_address(remote, forwarded))


def unsafe_redirect(body: bytes) -> str | None:
    """Return the first redirect URI of client metadata that is not safe; None if all are.

    The toolkit's view says what else is wrong with the metadata.
    """
    try:
        uris = json.loads(body).get("redirect_uris", [])
    except (ValueError, AttributeError):
        return None
    texts = [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
    return next((uri for uri in texts if not is_safe_redirect(uri)), None)


def _may_register(address: str) -> bool:
    """Count an attempt of a client address, and check the limit of all addresses together."""
    most = settings.HOLDPOINT["oauth_registrations_per_address"]
    if not is_attempt_allowed(f"oauth-client:{address}", most, seconds=_HOUR):
        return False
    return _below_limit()


def _below_limit() -> bool:
    source = get_application_model().RegistrationSource
    recent = get_application_model().objects.filter(
        registration_source__in=(source.DCR, source.CIMD),
        created__gt=timezone.now() - timedelta(hours=1),
    )
    return bool(recent.count() < settings.HOLDPOINT["oauth_registrations_per_hour"])


def clean_up_hourly() -> int:
    """Clean up once an hour: the sweeper calls this every few seconds."""
    return clean_up() if cache.add("oauth.clean_up", value=True, timeout=_HOUR) else 0


def clean_up() -> int:
    """Delete expired tokens and codes, and unused clients that registered themselves.

    Returns how many clients were deleted.
    """
    clear_expired()
    model = get_application_model()
    source = model.RegistrationSource
    unused = model.objects.filter(
        registration_source__in=(source.DCR, source.CIMD),
        created__lt=timezone.now() - _KEPT_UNUSED,
        refreshtoken=None,
        grant=None,
    )
    with transaction.atomic():
        clients = list(unused.select_for_update(of=("self",)))
        model.objects.filter(pk__in=[each.pk for each in clients]).delete()
        for client in clients:
            record_deleted(client, by="system")
    return len(clients)
