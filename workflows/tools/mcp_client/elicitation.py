"""Answer what a server asks during a call of a tool (elicitation).

Since protocol 2026-07-28 the server answers the call with its questions, and the client sends the
call again with the answers. Before, the server sends a request that does not name the call; it can
only be answered while one call of the server is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcp.client import Client
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    InputResponses,
)
from pydantic import TypeAdapter

#: Name of a server, and the run that one of its processes serves.
Process = tuple[str, str]
OnElicit = Callable[[ElicitRequestParams], Awaitable[ElicitResult | ErrorData]]

_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    CallToolResult | InputRequiredResult
)
#: How often a server may answer one call with questions.
_MAX_ROUNDS: Final = 10
#: Seconds before a call is repeated that the server wants to be repeated without an answer.
_REPEAT_SECONDS: Final = 0.25


class Elicitations:
    """Assigns the requests of servers to the calls under way; used on one loop."""

    def __init__(self) -> None:
        self._calls: dict[Process, list[OnElicit]] = {}

    @contextmanager
    def during_call(self, server: Process, on_elicit: OnElicit | None) -> Iterator[None]:
        """Let `on_elicit` answer the server meanwhile."""
        if on_elicit is None:
            yield
            return
        calls = self._calls.setdefault(server, [])
        calls.append(on_elicit)
        try:
            yield
        finally:
            calls.remove(on_elicit)

    def callback(self, server: Process) -> ElicitationFnT:
        """Return what the SDK calls for a request of the server."""

        async def answer(
            context: ClientRequestContext, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            calls = self._calls.get(server, [])
            if len(calls) == 1:
                return await calls[0](params)
            message = "Input can be given while one call is under way; ask again then."
            return ErrorData(code=INVALID_REQUEST, message=message)

        return answer


async def call_to_the_end(
    client: Client,
    tool: str,
    arguments: Mapping[str, Any],
    on_progress: ProgressFnT | None,
    on_elicit: OnElicit | None,
) -> CallToolResult:
    """Call a tool, answer what the server asks, and return its result as it is.

    Raises MCPError also for a question that is refused.
    """
    responses: InputResponses | None = None
    state: str | None = None
    for _ in range(_MAX_ROUNDS):
        # Not `client.call_tool`: it raises for a result that breaks the tool's output schema.
        params = CallToolRequestParams(
            name=tool, arguments=dict(arguments), input_responses=responses, request_state=state
        )
        result = await client.session.send_request(
            CallToolRequest(params=params), _RESULT, progress_callback=on_progress
        )
        if isinstance(result, CallToolResult):
            return result
        responses, state = await _responses(result, on_elicit), result.request_state
    raise MCPError(code=INVALID_REQUEST, message="The server asks for input again and again.")


async def _responses(
    result: InputRequiredResult, on_elicit: OnElicit | None
) -> InputResponses | None:
    if not result.input_requests:
        await asyncio.sleep(_REPEAT_SECONDS)
        return None
    responses: InputResponses = {}
    for key, request in result.input_requests.items():
        if on_elicit is None or not isinstance(request, ElicitRequest):
            message = f"Not supported: {request.method}"
            raise MCPError(code=INVALID_REQUEST, message=message)
        answer = await on_elicit(request.params)
        if isinstance(answer, ErrorData):
            raise MCPError.from_error_data(answer)
        responses[key] = answer
    return responses
