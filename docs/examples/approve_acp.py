"""A client of the Agent Client Protocol: permissions of a coding agent decided in Holdpoint."""

import asyncio
from typing import Any

from acp.schema import (
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from holdpoint import Client
from holdpoint_acp import to_answer, to_approvals


class Editor:
    """The part of acp.Client that answers permissions."""

    async def request_permission(
        self, options: list[Any], session_id: str, tool_call: ToolCallUpdate, **_: Any
    ) -> RequestPermissionResponse:
        request = RequestPermissionRequest(
            session_id=session_id, tool_call=tool_call, options=options
        )
        decisions = await Client().decide_async(to_approvals(request), risk="low")
        return to_answer(request, decisions)


async def main() -> None:
    call = ToolCallUpdate(
        tool_call_id="call-1",
        title="Transfer money",
        kind="execute",
        raw_input={"account": "DE02", "amount": 250},
    )
    options = [
        PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
        PermissionOption(option_id="ever", name="Always allow", kind="allow_always"),
        PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    ]
    answer = await Editor().request_permission(options, "session-1", call)
    print("transferred 250 to DE02" if answer.outcome.option_id == "yes" else "not transferred")


asyncio.run(main())
