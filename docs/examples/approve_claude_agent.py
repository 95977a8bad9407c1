"""Permissions of the Claude Agent SDK decided in Holdpoint.

The transport stands in for Claude Code: it asks for one permission and prints the answer.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    Transport,
)
from holdpoint import Client
from holdpoint_claude_agent import to_answer, to_approvals


async def can_use_tool(
    name: str, tool_input: dict[str, Any], context: ToolPermissionContext
) -> PermissionResultAllow | PermissionResultDeny:
    bodies = to_approvals(name, tool_input, context)
    return to_answer(await Client().decide_async(bodies, risk="low"), context)


class StandIn(Transport):
    """Answers the handshake, then asks whether it may call a tool."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.Future()

    async def connect(self) -> None: ...

    async def close(self) -> None:
        await self.lines.put(None)

    async def end_input(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            done = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self.lines.put({"type": "control_response", "response": done})
        elif message["type"] == "control_response":
            self.answer.set_result(message["response"]["response"])

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while message := await self.lines.get():
            yield message

    async def ask(self, name: str, tool_input: dict[str, Any]) -> dict[str, Any]:
        request = {"subtype": "can_use_tool", "tool_name": name, "input": tool_input}
        request |= {"tool_use_id": "call-1", "permission_suggestions": []}
        ask = {"type": "control_request", "request_id": "1", "request": request}
        await self.lines.put(ask)
        return await self.answer


async def main() -> None:
    transport = StandIn()
    options = ClaudeAgentOptions(can_use_tool=can_use_tool)
    async with ClaudeSDKClient(options, transport=transport):
        answer = await transport.ask("transfer", {"account": "DE02", "amount": 250})
    if answer["behavior"] == "allow":
        decided = answer["updatedInput"]
        print(f"transferred {decided['amount']:g} to {decided['account']}")
    else:
        print(answer["message"])


asyncio.run(main())
