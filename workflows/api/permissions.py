"""What a caller may do at all; workflows.executions.access checks one execution."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from workflows.executions import access
from workflows.models import ApiToken
from workflows.permissions import step_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def caller(request: Request) -> User:
    """The signed-in user; only for views that let nobody else in."""
    return cast("User", request.user)


def token_of(request: Request) -> ApiToken | None:
    """The bearer token of a call; None for a session, whose rights are the user's own."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def session_confirmed_at(request: Request) -> datetime | None:
    """When the person of a session last entered a code; None for a token."""
    return None if request.auth is not None else step_up.confirmed_at(request)


def has_scope(request: Request, scope: str) -> bool:
    """Whether the credential is good for `scope`: a session is for all, a token for its own."""
    granted = getattr(request.auth, "scopes", None)
    return granted is None or scope in granted


def require_scope(request: Request, scope: str) -> None:
    """Raise PermissionDenied unless the caller has `scope`."""
    if not has_scope(request, scope):
        raise PermissionDenied(_missing(scope))


def _missing(scope: str) -> str:
    return f"This token does not have the scope {scope!r}."


class _ScopePermission(BasePermission):
    scope = "read"

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user.is_authenticated:
            return False
        scope = "read" if request.method in SAFE_METHODS else self.scope
        self.message = _missing(scope)
        return has_scope(request, scope)


@lru_cache(maxsize=8)
def HasScope(scope: str) -> type[BasePermission]:
    """A permission class: reading takes the scope `read`, anything else `scope`."""
    return type(f"HasScope_{scope}", (_ScopePermission,), {"scope": scope})


class HasRole(BasePermission):
    """The user is in at least one group of ours."""

    message = "Your account has no role here yet; ask an admin."

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(access.roles_of(request.user).intersection(access.ROLES))


class AdminWrites(BasePermission):
    """Everybody reads, admins change."""

    message = "Only an admin may change this."

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.method in SAFE_METHODS:
            return True
        return access.ADMIN in access.roles_of(request.user)


class MaySubscribe(BasePermission):
    """The user's roles allow endpoints of their own."""

    message = "Integrators, operators and admins have webhooks; ask an admin for the role."

    def has_permission(self, request: Request, view: Any) -> bool:
        return access.may_subscribe(request.user)


def require(allowed: object, message: str) -> None:
    """Raise PermissionDenied with `message` unless `allowed`."""
    if not allowed:
        raise PermissionDenied(message)
