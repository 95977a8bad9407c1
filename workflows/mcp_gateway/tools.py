"""The tools: their names, words and schemas, and which function does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import mcp_types as types
from pydantic import BaseModel

from workflows.engine.dag import Plan

from . import calls, inputs, queries
from .callers import Caller
from .outputs import Answer, FoundTools, Pending


@dataclass(frozen=True)
class Tool:
    """One tool.

    `acts` changes or finds a run, about which the answer then is; `reads` gives the answer itself.
    `counts` is the limit per minute that a call falls under, besides the one for all.
    """

    name: str
    title: str
    description: str
    takes: type[inputs.Input]
    gives: type[BaseModel]
    acts: Callable[[Caller, Any], calls.CallResult] | None = None
    reads: Callable[[Caller, Any], BaseModel] | None = None
    asks: bool = False
    read_only: bool = False
    destructive: bool = False
    counts: str = ""

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        schema = _plain(self.takes.model_json_schema())
        return _with_plan(schema) if self.takes is inputs.Execute else schema

    @cached_property
    def wire(self) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=_plain(self.gives.model_json_schema(mode="serialization")),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.read_only,
                open_world_hint=self.name == "execute",
            ),
        )


def _plain(schema: Any) -> Any:
    """Without pydantic's titles, which say what the key says."""
    if isinstance(schema, dict):
        return {
            key: _plain(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def _with_plan(schema: dict[str, Any]) -> dict[str, Any]:
    """The whole form of a plan, so that a model can write one."""
    plan = _plain(Plan.model_json_schema())
    schema["$defs"] = {**schema.get("$defs", {}), **plan.pop("$defs")}
    schema["properties"]["plan"] = {"anyOf": [plan, {"type": "null"}], "default": None}
    return schema


_EXECUTE = """\
Run a DAG of tasks, layer by layer. Give exactly one of: workflow (name or id of a kept one), \
plan ({"tasks": [{"id": "log", "type": "tool", "tool": "git.git_log", "arguments": {...}}, \
{"id": "use", "type": "tool", "tool": "builtin.echo", "arguments": {"value": {"$from": "log"}}}]}; \
search_tools finds tools) or intent (plain words). With config.per_layer_validation the run stops \
after each layer for continue, replan or abort. Answers at the next stop, or `running` after \
config.wait_seconds; get_execution then asks again. An idempotency_key makes repeating safe."""

_LISTED = (
    Tool(
        name="execute",
        title="Start a run",
        description=_EXECUTE,
        takes=inputs.Execute,
        gives=Answer,
        acts=calls.execute,
        asks=True,
        counts="start",
    ),
    Tool(
        name="continue",
        title="Go on",
        description="Go on to the next layer of a run that answered layer_complete. Send the "
        "version of that answer, and a repeated call cannot skip a layer unseen.",
        takes=inputs.Continue,
        gives=Answer,
        acts=calls.continue_,
        asks=True,
    ),
    Tool(
        name="abort",
        title="Abort a run",
        description="End a run for good; tasks that run are told to stop. The reason is kept.",
        takes=inputs.Abort,
        gives=Answer,
        acts=calls.abort,
        destructive=True,
    ),
    Tool(
        name="replan",
        title="Ask for more tasks",
        description="Say what is needed besides; the planner adds tasks behind what has begun, "
        "and the run goes on. If it finds none, the run stays as it is.",
        takes=inputs.Replan,
        gives=Answer,
        acts=calls.replan,
        asks=True,
    ),
    Tool(
        name="approval_response",
        title="Decide a hold",
        description="Approve or reject what waits for a person, or have it done again with "
        "feedback. Takes a token with the scope `decide`, and rights like in the browser: nobody "
        "approves what they started. Without the scope the answer says where a person decides.",
        takes=inputs.ApprovalResponse,
        gives=Answer,
        acts=calls.approval_response,
        asks=True,
        counts="decide",
        destructive=True,
    ),
    Tool(
        name="get_execution",
        title="Where a run stands",
        description="The present answer about a run, at once or after waiting for its next stop.",
        takes=inputs.GetExecution,
        gives=Answer,
        acts=queries.look,
        read_only=True,
    ),
    Tool(
        name="list_pending",
        title="What waits",
        description="Open decision points of the runs you see: for people and for agents.",
        takes=inputs.ListPending,
        gives=Pending,
        reads=queries.list_pending,
        read_only=True,
    ),
    Tool(
        name="search_tools",
        title="Find tools for a plan",
        description="Tools that a plan's tasks can name, by meaning and words, best first.",
        takes=inputs.SearchTools,
        gives=FoundTools,
        reads=queries.search_tools,
        read_only=True,
    ),
)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _LISTED}
