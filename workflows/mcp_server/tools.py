"""The tools: names, descriptions, schemas, and the functions that implement them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import mcp_types as types
from pydantic import BaseModel

from workflows.engine.plans.dag import Plan

from . import approval_requests, argument_models, commands, queries
from .authentication import Caller
from .result_models import (
    Answer,
    FoundTools,
    PastDecisions,
    Pending,
    PredictedTools,
    RequestedApproval,
)
from .waiting import Report


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        perform: changes or finds a run; the server then responds with the state of that run.
        read: returns the response itself.
        respond: returns the response itself after waiting some seconds, and reports progress.
        elicits: whether the response may ask the client to open the review page.
        throttle_scope: the limit per minute for its calls, besides the limit for all calls.
    """

    name: str
    title: str
    description: str
    input_model: type[argument_models.Input]
    output_model: type[BaseModel]
    perform: Callable[[Caller, Any], commands.CallResult] | None = None
    read: Callable[[Caller, Any], BaseModel] | None = None
    respond: Callable[[Caller, Any, float, Report], Awaitable[BaseModel]] | None = None
    elicits: bool = False
    read_only: bool = False
    destructive: bool = False
    throttle_scope: str = ""

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        schema = _without_titles(self.input_model.model_json_schema())
        return _with_plan(schema) if self.input_model is argument_models.Execute else schema

    @cached_property
    def wire(self) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=_without_titles(
                self.output_model.model_json_schema(mode="serialization")
            ),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.read_only,
                open_world_hint=self.name == "execute",
            ),
        )


def _without_titles(schema: Any) -> Any:
    """Remove pydantic's titles, which repeat the keys."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema


def _with_plan(schema: dict[str, Any]) -> dict[str, Any]:
    """Add the full schema of a plan, so that a language model can write one."""
    plan = _without_titles(Plan.model_json_schema())
    schema["$defs"] = {**schema.get("$defs", {}), **plan.pop("$defs")}
    schema["properties"]["plan"] = {"anyOf": [plan, {"type": "null"}], "default": None}
    return schema


_EXECUTE = """\
Run a DAG of tasks, layer by layer. Give exactly one of: workflow (name or id of a stored one), \
plan ({"tasks": [{"id": "log", "type": "tool", "tool": "git.git_log", "arguments": {...}}, \
{"id": "use", "type": "tool", "tool": "builtin.echo", "arguments": {"value": {"$from": "log"}}}]}; \
search_tools finds tools) or intent (plain words). With config.per_layer_validation the run stops \
after each layer for continue, replan or abort. Returns at the next stop, or with `running` after \
config.wait_seconds; then call get_execution. An idempotency_key makes the call safe to repeat."""

_ALL_TOOLS = (
    Tool(
        name="execute",
        title="Start a run",
        description=_EXECUTE,
        input_model=argument_models.Execute,
        output_model=Answer,
        perform=commands.execute,
        elicits=True,
        throttle_scope="start",
    ),
    Tool(
        name="continue",
        title="Continue a run",
        description="Continue a run with status layer_complete with its next layer. Send the "
        "version of that response, so that a repeated call cannot skip the stop after a layer.",
        input_model=argument_models.Continue,
        output_model=Answer,
        perform=commands.continue_,
        elicits=True,
    ),
    Tool(
        name="abort",
        title="Abort a run",
        description="End a run permanently; running tasks are stopped. The reason is stored.",
        input_model=argument_models.Abort,
        output_model=Answer,
        perform=commands.abort,
        destructive=True,
    ),
    Tool(
        name="replan",
        title="Ask for more tasks",
        description="Describe what else is needed; the planner adds tasks after those that have "
        "begun, and the run continues. If the planner finds none, the run does not change.",
        input_model=argument_models.Replan,
        output_model=Answer,
        perform=commands.replan,
        elicits=True,
    ),
    Tool(
        name="approval_response",
        title="Decide a hold",
        description="Approve or reject an open hold, or request changes with feedback. Needs a "
        "token with the scope `decide`, and the rights that the browser needs: nobody can approve "
        "in a run that they started. Without the scope, the response has the URL of the page on "
        "which a person decides.",
        input_model=argument_models.ApprovalResponse,
        output_model=Answer,
        perform=commands.approval_response,
        elicits=True,
        throttle_scope="decide",
        destructive=True,
    ),
    Tool(
        name="get_execution",
        title="Get a run",
        description="Return the state of a run, immediately or after waiting for its next stop.",
        input_model=argument_models.GetExecution,
        output_model=Answer,
        perform=queries.get_execution,
        read_only=True,
    ),
    Tool(
        name="list_pending",
        title="List open holds",
        description="List the open holds of the runs that you may see, for people and for agents.",
        input_model=argument_models.ListPending,
        output_model=Pending,
        read=queries.list_pending,
        read_only=True,
    ),
    Tool(
        name="request_approval",
        title="Ask for approval",
        description="Ask people whether you may take an action with a tool of your own, and wait "
        "for their answer. Execute the returned arguments only if status is approved: people may "
        "have changed them. If it is pending, call again with the same fields and idempotency_key. "
        "Needs a token with the scope `ask`.",
        input_model=argument_models.RequestApproval,
        output_model=RequestedApproval,
        respond=approval_requests.request_approval,
    ),
    Tool(
        name="search_tools",
        title="Find tools for a plan",
        description="Search tools that the tasks of a plan can call, by meaning and words; best "
        "match first.",
        input_model=argument_models.SearchTools,
        output_model=FoundTools,
        read=queries.search_tools,
        read_only=True,
    ),
    Tool(
        name="similar_decisions",
        title="Find past decisions about a call",
        description="Return what people decided about earlier calls of a tool, with their comments "
        "and the outcome of each call; use it before you plan a call that people review.",
        input_model=argument_models.SimilarDecisions,
        output_model=PastDecisions,
        read=queries.similar_decisions,
        read_only=True,
    ),
    Tool(
        name="predict_next",
        title="Predict the next tool",
        description="Return the tools that probably run next after the tools that have run, with "
        "the probability from past runs; most likely first.",
        input_model=argument_models.PredictNext,
        output_model=PredictedTools,
        read=queries.predict_next,
        read_only=True,
    ),
)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _ALL_TOOLS}
