"""Who may use a gate: checked for each HTTP request, and again for each step of a call."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from django.http import Http404
from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_REQUEST
from rest_framework.exceptions import APIException, PermissionDenied
from starlette.types import ASGIApp, Receive, Scope, Send

from workflows.executions import access
from workflows.mcp_server.authentication import CallContext, Caller
from workflows.mcp_server.middleware import CALLER
from workflows.mcp_server.threads import in_thread
from workflows.models import Gate

#: The scope that a token needs.
SCOPE: Final = "gate"
_PATH: Final = re.compile(r"/mcp/gate/(?P<name>[-a-zA-Z0-9_]{1,60})/?")
_NOT_FOUND: Final = "There is no such gate, or this token may not use it."


@dataclass(frozen=True, slots=True)
class GateCaller:
    """A token and the gate that it calls."""

    caller: Caller
    gate: str

    def context(self) -> tuple[CallContext, Gate]:
        """Read token, user and gate again and return what they allow now.

        Raises:
            AuthenticationFailed: the token was revoked or has expired.
            PermissionDenied: the token does not have the scope, or the role starts nothing.
            Http404: there is no such gate for this token.
        """
        context = self.caller.context()
        context.require(SCOPE)
        if not access.may_start(context.user):
            raise PermissionDenied("Your role does not call tools.")
        gate = Gate.objects.filter(name=self.gate, enabled=True).first()
        if gate is None or not _may_use(context, gate):
            raise Http404
        return context, gate


def _may_use(context: CallContext, gate: Gate) -> bool:
    only = context.token.only_gates
    if only is not None and gate.pk not in only:
        return False
    if context.token.only_workflows is not None:
        return False
    groups = set(gate.groups.values_list("name", flat=True))
    return not groups or bool(groups & access.groups_of(context.user))


def caller_of(ctx: ServerRequestContext[Any, Any]) -> GateCaller:
    """Return the caller of a request that passed `GateMiddleware`."""
    scope = ctx.request.scope if ctx.request is not None else {}
    name, caller = gate_name(scope.get("path", "")), scope.get(CALLER)
    if name is None or not isinstance(caller, Caller):
        raise TypeError("the request did not pass GateMiddleware")
    return GateCaller(caller, name)


def gate_name(path: str) -> str | None:
    """Return the name of the gate at a path; None for another path."""
    found = _PATH.fullmatch(path)
    return found["name"] if found else None


class GateMiddleware:
    """ASGI middleware that answers 403 and 404 before the SDK handles a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = gate_name(scope["path"])
        if name is None:
            await _refuse(send, 404, _NOT_FOUND)
            return
        try:
            await in_thread(GateCaller(scope[CALLER], name).context)
        except Http404:
            await _refuse(send, 404, _NOT_FOUND)
        except APIException as error:
            await _refuse(send, error.status_code, str(error.detail))
        else:
            await self._app(scope, receive, send)


async def _refuse(send: Send, status: int, message: str) -> None:
    error = {"code": INVALID_REQUEST, "message": message}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
