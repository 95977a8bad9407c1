"""REST permission classes; `workflows.executions.access` checks rights on one execution."""

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
    """Return the signed-in user; only for views that require authentication."""
    return cast("User", request.user)


def token_of(request: Request) -> ApiToken | None:
    """Return the API token of a request; None for a session, which has all rights of its user."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def session_confirmed_at(request: Request) -> datetime | None:
    """Return when the user of a session last confirmed with a code; None for a token."""
    return None if request.auth is not None else step_up.confirmed_at(request)


def has_scope(request: Request, scope: str) -> bool:
    """Whether the credential has `scope`; a session has all scopes."""
    scopes = getattr(request.auth, "scopes", None)
    return scopes is None or scope in scopes


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
    """Return a permission class: safe methods require the scope `read`, others `scope`.

    The cache is keyed by the scope, so that equal scopes share a class; there are fewer than eight.
    """
    return type(f"HasScope_{scope}", (_ScopePermission,), {"scope": scope})


class HasRole(BasePermission):
    """The user has at least one role."""

    message = "Your account has no role here yet; ask an admin."

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(access.roles_of(request.user).intersection(access.ROLES))


class AdminWrites(BasePermission):
    """Everyone may read; only admins may change."""

    message = "Only an admin may change this."

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.method in SAFE_METHODS:
            return True
        return access.ADMIN in access.roles_of(request.user)


class AdminOnly(BasePermission):
    """Only admins may read or change, with no token that is limited to workflows."""

    message = "Only an admin may do this, with a token that is not limited to workflows."

    def has_permission(self, request: Request, view: Any) -> bool:
        unlimited = access.allowed_workflow_ids(request.user) is None
        return unlimited and access.ADMIN in access.roles_of(request.user)


class MaySubscribe(BasePermission):
    """The user's roles allow webhook endpoints."""

    message = "Integrators, operators and admins have webhooks; ask an admin for the role."

    def has_permission(self, request: Request, view: Any) -> bool:
        return access.may_subscribe(request.user)


def require(allowed: object, message: str) -> None:
    """Raise PermissionDenied with `message` unless `allowed`."""
    if not allowed:
        raise PermissionDenied(message)
