"""The only place besides learning.py that talks to graphrag: catalogue, suggestions, replans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag.catalogue.ingest import IngestResult, disable_server, upsert_tools
from graphrag.catalogue.selectors import servers_of, tools_by_name
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import replanning
from graphrag.planning import services as graph_planning
from graphrag.planning.drafting import TaskReason
from graphrag.retrieval import search
from workflows.engine.dag import Plan
from workflows.engine.plan_validation import PlanInvalid
from workflows.engine.ports import NewPlan, Settled
from workflows.engine.status import TaskStatus
from workflows.engine.task_errors import TaskFailed
from workflows.permissions import capabilities
from workflows.tools import registry
from workflows.tools.mcp_client import McpTool

from .plan_validation import checked_plan

#: What capabilities are called in the catalogue: `capability.<name>`.
CAPABILITIES = "capability"

__all__ = [
    "CAPABILITIES",
    "CataloguePlanner",
    "SuggestedPlan",
    "predict_next",
    "read_only_tools",
    "retire_mcp_servers",
    "search_tools",
    "suggest",
    "sync_capabilities",
    "sync_mcp_tools",
    "sync_python_tools",
    "tool_schemas",
]


def tool_schemas(names: Iterable[str]) -> dict[str, ToolRecord]:
    """The enabled tools of these names, with schemas, permission set and read-only mark."""
    found = tools_by_name(sorted(set(names)))
    return {name: record for name, record in found.items() if record.enabled}


def read_only_tools(names: Iterable[str]) -> frozenset[str]:
    """Those of these tools that are enabled and marked read-only, by catalogue and by code.

    A tool without the mark is none of them, whatever else is known about it.
    """
    found = tool_schemas(names)
    return frozenset(name for name, record in found.items() if _only_reads(record))


def _only_reads(record: ToolRecord) -> bool:
    declared = registry.get(record.name)
    return record.read_only and not record.destructive and (declared is None or declared.read_only)


def predict_next(done: Sequence[str]) -> list[graph_planning.Prediction]:
    """Up to three read-only tools that will probably follow `done` (tool names, newest last)."""
    likely = graph_planning.predict_next(done, limit=None)
    allowed = read_only_tools(each.tool for each in likely)
    return [each for each in likely if each.tool in allowed][: graph_planning.MAX_PREDICTIONS]


def sync_python_tools() -> IngestResult:
    """Bring the catalogue in step with the Python tools that are installed."""
    records = [
        ToolRecord(
            name=tool.name,
            kind="python",
            server=tool.server,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            permission_set=tool.permission_set,
            read_only=tool.read_only,
            idempotent=tool.idempotent,
        )
        for tool in registry.all_tools()
    ]
    return upsert_tools(records, server=None, prune=False)


def sync_mcp_tools(server: str, tools: Iterable[McpTool]) -> IngestResult:
    """Bring the catalogue in step with one MCP server's tool list.

    A tool that calls itself read-only gets `readonly`, any other `mcp-standard`: a hint of its
    own is believed for planning, permissions remain what an admin makes of them.
    """
    records = [
        ToolRecord(
            name=f"{server}.{tool.name}",
            kind="mcp",
            server=server,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            permission_set="readonly" if tool.read_only else "mcp-standard",
            read_only=bool(tool.read_only),
            idempotent=bool(tool.idempotent),
            destructive=tool.destructive,
            open_world=tool.open_world,
        )
        for tool in tools
    ]
    return upsert_tools(records, server=server, prune=True)


def sync_capabilities() -> IngestResult:
    """Bring the catalogue in step with the enabled capabilities; the others leave it.

    One that can neither write nor reach anything beyond reading is marked read-only.
    """
    records = [
        ToolRecord(
            name=f"{CAPABILITIES}.{offer.name}",
            kind="capability",
            server=CAPABILITIES,
            description=offer.description,
            input_schema=offer.input_schema,
            output_schema=_schema(offer.output_schema),
            permission_set=offer.permission_set,
            read_only=offer.permission_set in ("minimal", "readonly"),
        )
        for offer in capabilities.offered()
    ]
    return upsert_tools(records, server=CAPABILITIES, prune=True)


def _schema(stored: Any) -> dict[str, Any] | None:
    return stored if isinstance(stored, dict) else None


def retire_mcp_servers(keep: Iterable[str]) -> tuple[str, ...]:
    """Mark the tools of every other MCP server as missing; they return with its next listing."""
    gone = servers_of("mcp") - set(keep)
    return tuple(name for server in sorted(gone) for name in disable_server(server))


@dataclass(frozen=True, slots=True)
class SuggestedPlan:
    """A plan for an intent: `plan` is None when nothing fits; `nearest` then names tools that come
    near, with how near.  `missing` (input → the tool that needs it) are inputs the plan asks for;
    `why` says for each task {"tool", "confidence", "reasons"}; `warnings` what was left out.
    """

    plan: dict[str, Any] | None
    confidence: float
    nearest: tuple[str, ...]
    missing: Mapping[str, str]
    why: Mapping[str, Any] = field(default_factory=dict)
    similar: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def suggest(intent: str, inputs: Mapping[str, Any]) -> SuggestedPlan:
    """A plan of known tools for an intent in plain words."""
    found = graph_planning.suggest(intent, inputs)
    return SuggestedPlan(
        plan=None if found.plan is None else dict(found.plan),
        confidence=found.confidence,
        nearest=tuple(near.tool for near in found.nearest),
        missing=dict(found.missing_inputs),
        why=_why(found.reasons),
        similar={near.tool: near.similarity for near in found.nearest},
        warnings=found.warnings,
    )


def search_tools(query: str, *, limit: int, read_only: bool | None) -> search.Answer:
    """Enabled tools that fit a question in plain words, best first."""
    return search.search(query, limit=limit, filters=search.Filters(read_only=read_only))


class CataloguePlanner:
    """engine.ports.Planner on the tool graph."""

    def replan(
        self,
        *,
        plan: Plan,
        settled: Mapping[str, Settled],
        begun: frozenset[str],
        requirement: str,
        context: Mapping[str, Any],
        inputs: Mapping[str, Any],
    ) -> NewPlan:
        done = [name for name, each in settled.items() if each.status is TaskStatus.SUCCEEDED]
        written = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
        found = replanning.replan(written, done, requirement, context, inputs=inputs)
        if found.plan is None:
            raise TaskFailed(_why_not(found.warnings, [near.tool for near in found.nearest]))
        if found.missing_inputs:
            needs = ", ".join(f"{name} (for {tool})" for name, tool in found.missing_inputs.items())
            raise TaskFailed(f"the new tasks need {needs}; give it as available_context")
        try:
            changed = checked_plan(dict(found.plan), tool_schemas, capabilities.known)
        except PlanInvalid as invalid:
            raise TaskFailed(f"the new plan cannot be run: {invalid}") from invalid
        return NewPlan(changed, _why(found.reasons))


def _why(reasons: Iterable[TaskReason]) -> dict[str, dict[str, Any]]:
    """What speaks for each task, by its id."""
    return {
        each.task: {
            "tool": each.tool,
            "confidence": each.confidence,
            "reasons": list(each.reasons),
        }
        for each in reasons
    }


def _why_not(warnings: Iterable[str], nearest: Iterable[str]) -> str:
    near = ", ".join(nearest)
    told = " ".join(warnings) or "No tool fits the requirement."
    return f"{told} Nearest tools: {near}." if near else told
