"""The only place besides learning.py that talks to graphrag: catalogue, suggestions, replans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphrag import planning as graph_planning
from graphrag import replanning
from graphrag.catalogue import tools_by_name
from graphrag.ingest import IngestResult, upsert_tools
from graphrag.records import ToolRecord

from . import capabilities
from .engine.dag import Plan
from .engine.faults import TaskFailed
from .engine.ports import Settled
from .engine.status import TaskStatus
from .engine.structure import PlanInvalid
from .mcp.client import McpTool
from .tools import registry
from .validation import checked_plan

__all__ = [
    "CataloguePlanner",
    "SuggestedPlan",
    "suggest",
    "sync_mcp_tools",
    "sync_python_tools",
    "tool_schemas",
]


def tool_schemas(names: Iterable[str]) -> dict[str, ToolRecord]:
    """The enabled tools of these names, with schemas, permission set and read-only mark."""
    found = tools_by_name(sorted(set(names)))
    return {name: record for name, record in found.items() if record.enabled}


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


@dataclass(frozen=True, slots=True)
class SuggestedPlan:
    """A plan for an intent: `plan` is None when nothing fits; `nearest` then names tools that come
    near.  `missing` (input → the tool that needs it) are inputs the plan asks for.
    """

    plan: dict[str, Any] | None
    confidence: float
    nearest: tuple[str, ...]
    missing: Mapping[str, str]


def suggest(intent: str, inputs: Mapping[str, Any]) -> SuggestedPlan:
    """A plan of known tools for an intent in plain words."""
    found = graph_planning.suggest(intent, inputs)
    return SuggestedPlan(
        plan=None if found.plan is None else dict(found.plan),
        confidence=found.confidence,
        nearest=tuple(near.tool for near in found.nearest),
        missing=dict(found.missing_inputs),
    )


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
    ) -> Plan:
        done = [name for name, each in settled.items() if each.status is TaskStatus.SUCCEEDED]
        written = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
        found = replanning.replan(written, done, requirement, context, inputs=inputs)
        if found.plan is None:
            raise TaskFailed(_why_not(found.warnings, [near.tool for near in found.nearest]))
        if found.missing_inputs:
            needs = ", ".join(f"{name} (for {tool})" for name, tool in found.missing_inputs.items())
            raise TaskFailed(f"the new tasks need {needs}; give it as available_context")
        try:
            return checked_plan(dict(found.plan), tool_schemas, capabilities.known)
        except PlanInvalid as invalid:
            raise TaskFailed(f"the new plan cannot be run: {invalid}") from invalid


def _why_not(warnings: Iterable[str], nearest: Iterable[str]) -> str:
    near = ", ".join(nearest)
    told = " ".join(warnings) or "No tool fits the requirement."
    return f"{told} Nearest tools: {near}." if near else told
