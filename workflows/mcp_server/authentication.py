"""Authenticate callers, and check what a token and its user may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied, Throttled

from workflows.api.executions import parse_id
from workflows.api.throttling import count_requests, token_throttle_key
from workflows.executions import access
from workflows.models import ApiToken, Checkpoint, Execution
from workflows.permissions.tokens import authenticate_token, usable_token
from workflows.permissions.unknown_token_limit import count_unknown_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NOT_VALID = "This token is not valid; it may be expired or revoked."


@dataclass(frozen=True, slots=True)
class Caller:
    """A token and its user, valid when the call arrived."""

    token_id: int
    user_id: int

    def count(self, *kinds: str) -> None:
        """Count a call against the limits per minute; raise Throttled above a limit."""
        wait = count_requests(token_throttle_key(self.token_id), kinds)
        if wait:
            raise Throttled(wait=wait)

    def context(self) -> CallContext:
        """Read token and user again and return what they may do now.

        Raises:
            AuthenticationFailed: the token was revoked or has expired.
            PermissionDenied: the account has no role.
        """
        token = usable_token(self.token_id)
        if token is None:
            raise AuthenticationFailed(NOT_VALID)
        if not access.roles_of(token.user).intersection(access.ROLES):
            raise PermissionDenied("Your account has no role here yet; ask an admin.")
        return CallContext(token)


def authenticate_and_count(text: str, address: str) -> Caller | None:
    """Return the owner of this token and count one request; None for an unknown token.

    Raises Throttled above the limit of requests per token, or of unknown tokens per address.
    """
    caller = authenticate_caller(text)
    if caller is not None:
        caller.count("any")
        return caller
    wait = count_unknown_token(address)
    if wait:
        raise Throttled(wait=wait, detail="Too many unknown tokens from this address.")
    return None


def authenticate_caller(text: str) -> Caller | None:
    """Return the owner of this token; None if the token is not usable."""
    token = authenticate_token(text)
    return Caller(token_id=token.pk, user_id=token.user_id) if token else None


class CallContext:
    """The rights of one call: a token and its user, as read from the database for this call."""

    def __init__(self, token: ApiToken) -> None:
        self.token = token
        self.user: User = token.user

    def has(self, scope: str) -> bool:
        return scope in self.token.scopes

    def require(self, scope: str) -> None:
        """Raise PermissionDenied unless the token has `scope`."""
        if not self.has(scope):
            raise PermissionDenied(f"This token does not have the scope {scope!r}.")

    def require_start(self) -> None:
        if not access.may_start(self.user):
            raise PermissionDenied("Your role does not start executions.")

    def may_operate(self, execution: Execution) -> bool:
        return access.may_operate(self.user, execution)

    def require_operate(self, execution: Execution) -> None:
        if not self.may_operate(execution):
            raise PermissionDenied(
                "Operators, admins and the user who started it may command an execution."
            )

    def executions(self) -> QuerySet[Execution]:
        """The executions that the caller may see."""
        return access.visible_to(self.user)

    def execution(self, workflow_id: str) -> Execution:
        """Return a visible execution with `newest_checkpoint`; raise Http404 for any other id."""
        newest = Checkpoint.objects.filter(execution=OuterRef("pk")).order_by("-layer", "-pk")
        rows = self.executions().select_related("workflow", "created_by")
        rows = rows.annotate(newest_checkpoint=Subquery(newest.values("pk")[:1]))
        execution = rows.filter(pk=parse_id(workflow_id)).first()
        if execution is None:
            raise Http404
        return execution
