"""OAuth access tokens are API tokens: one row, one set of rights, one list to revoke them in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_refresh_token_model,
)
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749.errors import InvalidGrantError, InvalidScopeError

from workflows.conf import site_url
from workflows.executions.validation import InvalidRequest
from workflows.permissions import tokens

from .client_events import record_registered
from .clients import is_safe_redirect


def new_access_token(request: Request) -> str:
    """Return the text of an access token, which has the form of every API token."""
    return tokens.new_text()


class OAuthValidator(OAuth2Validator):  # type: ignore[misc]
    """Stores an API token with each access token, and follows its revocation."""

    def save_bearer_token(
        self, token: dict[str, Any], request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """Store the token; a refreshed one replaces the text of its API token.

        A token that is meant for MCP gates (RFC 8707) is limited to them and to the scope `gate`.

        Raises InvalidScopeError for scopes that the person may not give (any more), and
        InvalidGrantError when the API token was revoked or the code was used at the same moment.
        """
        try:
            self._store(token, request, *args, **kwargs)
        except IntegrityError:
            tokens.revoke_oauth_code(request.code)
            raise InvalidGrantError(request=request) from None

    def _store(self, token: dict[str, Any], request: Request, *args: Any, **kwargs: Any) -> None:
        code = request.code if request.grant_type == "authorization_code" else None
        with transaction.atomic():
            super().save_bearer_token(token, request, *args, **kwargs)
            text = token["access_token"]
            stored = get_access_token_model().objects.get(token_checksum=tokens.digest_of(text))
            gates = _gates_of(stored.resource)
            if gates is not None:
                token["scope"] = "gate"
                # Without another scope, so that a refresh never adds one.
                kept = [scope for scope in stored.scope.split() if scope == "gate"]
                stored.scope = " ".join(kept)
                stored.save(update_fields=["scope", "updated"])
            refresh = get_refresh_token_model().objects.get(access_token=stored)
            try:
                tokens.store_oauth_token(
                    user=stored.user,
                    client=stored.application,
                    family=refresh.token_family,
                    text=text,
                    scopes=stored.scope.split(),
                    gates=gates,
                    code=code,
                    expires_at=stored.expires,
                )
            except InvalidRequest as invalid:
                raise InvalidScopeError(description=str(invalid), request=request) from None
            except tokens.Revoked:
                raise InvalidGrantError(request=request) from None

    def validate_client_id(
        self, client_id: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """Record a client that the toolkit has just read from its document."""
        clients = get_application_model().objects.filter(client_id=client_id)
        is_known = clients.exists()
        valid = super().validate_client_id(client_id, request, *args, **kwargs)
        if valid and not is_known:
            record_registered(clients.get())
        return bool(valid)

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """Refuse unsafe addresses also of clients that changed theirs, or have a document."""
        known = super().validate_redirect_uri(client_id, redirect_uri, request, *args, **kwargs)
        return bool(known and is_safe_redirect(redirect_uri))

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """Revoke the tokens of a code that was used before (RFC 6749, 4.1.2)."""
        valid = super().validate_code(client_id, code, client, request, *args, **kwargs)
        if not valid:
            tokens.revoke_oauth_code(code)
        return bool(valid)

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """Refuse also for a disabled account; a replayed token ends the tokens of its family."""
        valid = super().validate_refresh_token(refresh_token, client, request, *args, **kwargs)
        if not valid:
            _end_revoked(_families_of(refresh_token))
        return bool(valid and request.user.is_active)

    def revoke_token(
        self, token: str, token_type_hint: str | None, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """Revoke an access token or a refresh token, and end its API token."""
        families = _families_of(token)
        with transaction.atomic():
            super().revoke_token(token, token_type_hint, request, *args, **kwargs)
            _end_revoked(families)


def _gates_of(resources: Iterable[str]) -> list[str] | None:
    """Return the names of the gates if a token is meant for nothing else; None otherwise."""
    start = f"{site_url().rstrip('/')}/mcp/gate/"
    found = list(resources)
    if not found or not all(each.startswith(start) for each in found):
        return None
    return [each.removeprefix(start).strip("/") for each in found]


def _families_of(token: str) -> list[UUID]:
    """Return the family of an access token or refresh token; [] for another text."""
    checksum = tokens.digest_of(token)
    rows = get_refresh_token_model().objects.filter(
        Q(token_checksum=checksum) | Q(access_token__token_checksum=checksum)
    )
    return list(rows.exclude(token_family=None).values_list("token_family", flat=True).distinct())


def _end_revoked(families: Iterable[UUID]) -> None:
    """End the API tokens of families without a refresh token in force."""
    for family in families:
        in_force = get_refresh_token_model().objects.filter(token_family=family, revoked=None)
        if not in_force.exists():
            tokens.end_oauth_family(family)
