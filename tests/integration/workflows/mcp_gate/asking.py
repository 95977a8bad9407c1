"""An MCP server whose tools ask for input during a call; it notes each answer in a file."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver import ElicitationResult as Outcome
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("asks")
journal = Path(os.environ["JOURNAL"])


def note(**call: object) -> None:
    with journal.open("a") as lines:
        lines.write(json.dumps(call) + "\n")


class Release(BaseModel):
    branch: str
    loud: bool = True


async def which() -> Elicit[Release]:
    return Elicit("Which <b>branch</b>?", Release)


@server.tool(structured_output=False)
def deploy(release: Annotated[Outcome[Release], Resolve(which)]) -> str:
    """Deploy what people name."""
    chosen = release.data.model_dump() if isinstance(release, AcceptedElicitation) else None
    note(tool="deploy", action=release.action, chosen=chosen)
    return f"{release.action} {chosen}"


def asks(request: ElicitRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests={"q": request}, request_state="again")


@server.tool(structured_output=False)
def insist(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask for ever."""
    note(tool="insist")
    schema = {"type": "object", "properties": {"name": {"type": "string", "default": "n"}}}
    return asks(ElicitRequest(params=ElicitRequestFormParams(message="?", requested_schema=schema)))


@server.tool(structured_output=False)
def open_page(ctx: Context, url: str = "https://example.com/sign-in?to=asks") -> Any:
    """Ask people to open an address."""
    if ctx.input_responses:
        answer = ctx.input_responses["q"].model_dump(mode="json", exclude_none=True)
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(answer))])
    return asks(ElicitRequest(params=ElicitRequestURLParams(message="Sign in", url=url)))


@server.tool(structured_output=False)
def confuse(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask with a schema that is none."""
    schema = {"type": "object", "properties": {"name": {"type": "no such type"}}}
    return asks(ElicitRequest(params=ElicitRequestFormParams(message="?", requested_schema=schema)))


@server.tool(structured_output=False)
def quiet() -> CallToolResult:
    """Ask nothing."""
    return CallToolResult(content=[TextContent(type="text", text="quiet")])


if __name__ == "__main__":
    server.run()
