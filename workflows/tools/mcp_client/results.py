"""Convert results of the SDK into JSON values, tool entries and task failures."""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    CallToolResult,
    EmbeddedResource,
    TextContent,
    TextResourceContents,
    Tool,
)

from workflows.engine.protocol.ports import TaskFailed
from workflows.engine.values.bounded_json import BoundedJSONError, check_value

from .server_spec import McpTool

_FINAL_CODES = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR})
_MAX_MESSAGE = 4_000

NOT_JSON_RPC = "sent a message that is not JSON-RPC"
#: How the SDK's HTTP transport begins the message of an error for an answer that it cannot read.
_UNREADABLE_PREFIX = "Failed to parse "


def value_of(name: str, result: CallToolResult) -> Any:
    """Return the task's output: structured content if present, otherwise the text.

    Several texts are joined with newlines. With other content (images, audio, links) the output is
    the list of all parts in the format of the protocol. Raises TaskFailed with the text of an error
    result, or when the value exceeds the limits for JSON.
    """
    if result.is_error:
        message = _text(result) or "the tool reported an error without a message"
        raise TaskFailed(f"{name}: {message}"[:_MAX_MESSAGE])
    value = result.structured_content
    if value is None:
        texts = [_text_of(part) for part in result.content]
        value = "\n".join(text for text in texts if text is not None)
        if None in texts:
            value = [
                part.model_dump(mode="json", by_alias=True, exclude_none=True)
                for part in result.content
            ]
    try:
        check_value(value)
    except BoundedJSONError as error:
        raise TaskFailed(f"{name}: the result is refused: {error}", retryable=False) from None
    return value


def _text(result: CallToolResult) -> str:
    return "\n".join(text for part in result.content if (text := _text_of(part)) is not None)


def _text_of(part: object) -> str | None:
    if isinstance(part, TextContent):
        return part.text
    if isinstance(part, EmbeddedResource) and isinstance(part.resource, TextResourceContents):
        return part.resource.text
    return None


def failure_of(name: str, error: Exception) -> TaskFailed:
    """Convert an exception of a call into a TaskFailed."""
    if isinstance(error, MCPError):
        retryable = error.code not in _FINAL_CODES
        return TaskFailed(f"{name}: {error.message}"[:_MAX_MESSAGE], retryable=retryable)
    return TaskFailed(f"{name}: {type(error).__name__}: {error}"[:_MAX_MESSAGE], retryable=False)


def is_unreadable(error: MCPError) -> bool:
    """Whether the error stands for an answer over HTTP that is not JSON-RPC."""
    return error.code == PARSE_ERROR and error.message.startswith(_UNREADABLE_PREFIX)


def tool_of(tool: Tool) -> McpTool:
    """Convert a tool entry; the title falls back as the protocol specifies."""
    hints = tool.annotations
    return McpTool(
        name=tool.name,
        title=tool.title or (hints.title if hints else None) or tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        idempotent=hints.idempotent_hint if hints else None,
        open_world=hints.open_world_hint if hints else None,
    )
