"""Catalogue, suggested plans and replans from graphrag.

Only this module and learning.py import graphrag.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.module_loading import import_string

from graphrag import prediction
from graphrag.catalogue.ingest import IngestResult, disable_server, upsert_tools
from graphrag.catalogue.selectors import servers_of, tool_names_of
from graphrag.catalogue.tool_record import ToolRecord, record_from_row
from graphrag.models import Tool
from graphrag.planning import replanning
from graphrag.planning import services as graph_planning
from graphrag.planning.draft import Question, Refused, TaskReason, nothing_refused
from graphrag.retrieval import search
from workflows.engine.plans.dag import Plan, ToolTask, references
from workflows.engine.plans.dataflow import resolve
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.plans.validation import PlanInvalid, parse_plan
from workflows.engine.policy.policies import ReviewPolicy
from workflows.engine.protocol.ports import FinishedTask, NewPlan
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.protocol.task_inputs import Spec
from workflows.engine.values.reasons import Reason
from workflows.models import Execution
from workflows.permissions import capabilities
from workflows.tools import registry
from workflows.tools.mcp_client import McpTool

from .catalogue_validation import checked_plan, rechecked

#: Confidence that a predicted next tool must exceed.
PREDICT_ABOVE = 0.7

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)

#: Characters of an intent; the search reads no more.
MAX_INTENT = search.MAX_QUERY

#: The server name of capabilities in the catalogue: `capability.<name>`.
CAPABILITIES = "capability"

__all__ = [
    "CAPABILITIES",
    "MAX_INTENT",
    "CataloguePlanner",
    "SuggestedPlan",
    "known_tools",
    "next_tools",
    "predict_next",
    "predicted_plan",
    "read_only_tools",
    "retire_mcp_servers",
    "search_tools",
    "suggest",
    "sync_capabilities",
    "sync_mcp_tools",
    "sync_python_tools",
    "tool_schemas",
    "tools_of_server",
]


def tool_schemas(names: Iterable[str]) -> dict[str, ToolRecord]:
    """Return the enabled tools with these names."""
    return {name: record for name, record in known_tools(names).items() if record.enabled}


def known_tools(names: Iterable[str]) -> dict[str, ToolRecord]:
    """Return the tools with these names, also disabled ones."""
    wanted = sorted({name for name in names if "\0" not in name})  # PostgreSQL refuses NUL
    if not wanted:
        return {}
    columns = [field.name for field in fields(ToolRecord)]
    rows = Tool.objects.filter(name__in=wanted).only(*columns)
    return {row.name: record_from_row(row) for row in rows}


def tools_of_server(server: str) -> list[str]:
    """Return the names of the tools that a server offers now, sorted."""
    return tool_names_of(server)


def read_only_tools(names: Iterable[str]) -> frozenset[str]:
    """Return the names of tools that are enabled and declared read-only by catalogue and code."""
    records = tool_schemas(names)
    return frozenset(name for name, record in records.items() if _only_reads(record))


def _only_reads(record: ToolRecord) -> bool:
    declared = registry.get(record.name)
    return record.read_only and not record.can_destroy and (declared is None or declared.read_only)


def next_tools(done: Sequence[str], *, limit: int) -> list[prediction.Prediction]:
    """Return the enabled tools that may follow `done` (newest last), most likely first."""
    return prediction.predict_next(done, limit=limit)


def predict_next(done: Sequence[str]) -> list[prediction.Prediction]:
    """Return up to three read-only tools that follow `done` with more than the threshold."""
    likely = prediction.predict_next(done, limit=None, above=PREDICT_ABOVE)
    allowed = read_only_tools(each.tool for each in likely)
    return [each for each in likely if each.tool in allowed][: prediction.MAX_PREDICTIONS]


def predicted_plan(
    plan: Plan,
    finished: Mapping[str, FinishedTask],
    context: Mapping[str, Any],
    inputs: Mapping[str, Any],
) -> Plan | None:
    """Return the plan with one more task: the read-only tool that is likely to be added next.

    `finished` are the tasks that have ended, the newest last.  The tool is not open-world, and its
    server is one that the plan calls already.  None without a likely tool, or when an argument is
    not known.
    """
    by_id = plan.by_id
    called = known_tools(task.tool for task in plan.tasks if isinstance(task, ToolTask))
    servers = {record.server for record in called.values()}
    done = [
        task.tool
        for name, each in finished.items()
        if each.status is TaskStatus.SUCCEEDED and isinstance(task := by_id[name], ToolTask)
    ]
    likely_tools = predict_next(done)
    records = tool_schemas(each.tool for each in likely_tools)
    for likely in likely_tools:
        record = records.get(likely.tool)
        if record is None or record.is_open_world or record.server not in servers:
            continue
        words = likely.tool.rpartition(".")[2].replace("_", " ").replace("-", " ")
        try:
            # A guess is not worth a call of the language model.
            found = CataloguePlanner(with_model=False).replan(
                plan=plan,
                finished=finished,
                begun=frozenset(finished),
                requirement=words,
                context=context,
                inputs=inputs,
            )
        except TaskFailed:
            continue
        added = [task.target for task in found.plan.tasks if task.id not in by_id]
        if added == [likely.tool]:
            return found.plan
    return None


def sync_python_tools() -> IngestResult:
    """Synchronize the catalogue with the installed Python tools."""
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
    """Synchronize the catalogue with the tool list of an MCP server.

    A tool that declares itself read-only gets the permission set `readonly`, any other
    `mcp-standard`; an admin can change it.
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
    result = upsert_tools(records, server=server, prune=True)
    if result.refused:
        name, reason = next(iter(result.refused.items()))
        logger.warning(
            "%d tools were not stored, such as %s: %s", len(result.refused), name, reason
        )
    return result


def sync_capabilities() -> IngestResult:
    """Synchronize the catalogue with the enabled capabilities.

    A capability whose permission set only reads is marked read-only.
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
    """Disable the tools of all other MCP servers, until their next synchronization."""
    removed = servers_of("mcp") - set(keep)
    return tuple(name for server in sorted(removed) for name in disable_server(server))


@dataclass(frozen=True, slots=True)
class SuggestedPlan:
    """A plan for an intent; `plan` is None if no tools fit, and `nearest` names similar tools.

    `missing` maps inputs that the plan needs to the tool that needs them; `why` maps task ids to
    {"tool", "confidence", "reasons", "questions"}; `questions` maps the paths of tasks and
    arguments that the planner is unsure of to a question; `warnings` names the parts of the intent
    without a task.
    """

    plan: dict[str, Any] | None
    confidence: float
    nearest: tuple[str, ...]
    missing: Mapping[str, str]
    questions: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, Any] = field(default_factory=dict)
    similar: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def suggest(intent: str, inputs: Mapping[str, Any], user: User | None = None) -> SuggestedPlan:
    """Suggest a plan of known tools for an intent in plain words.

    With a `user`, tools that people mostly refused in runs which the user sees come later.
    """
    suggestion = graph_planning.suggest(intent, inputs, refused=_refused_by_people(user))
    return SuggestedPlan(
        plan=None if suggestion.plan is None else _with_reviews_of_added(suggestion.plan),
        confidence=suggestion.confidence,
        nearest=tuple(near.tool for near in suggestion.nearest),
        missing=dict(suggestion.missing_inputs),
        questions=_questions_by_path(suggestion.plan, suggestion.questions),
        why=_with_questions(_reasons_by_task(suggestion.reasons), suggestion.questions),
        similar={near.tool: near.similarity for near in suggestion.nearest},
        warnings=suggestion.warnings,
    )


def _with_reviews_of_added(suggested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the suggested plan with a review of each task that can modify data."""
    plan = parse_plan(dict(suggested))
    plan = with_required_reviews(plan, (), added=plan.by_id.keys())
    tasks = [_with_review(task, plan.by_id[task["id"]].human_review) for task in suggested["tasks"]]
    return {**suggested, "tasks": tasks}


def _with_review(task: Mapping[str, Any], review: ReviewPolicy | None) -> dict[str, Any]:
    if review is None:
        return dict(task)
    return {**task, "human_review": review.model_dump(mode="json", exclude_defaults=True)}


def _refused_by_people(user: User | None) -> Refused:
    return nothing_refused if user is None else partial(refused_tools, user)


def _starter(execution_id: str) -> User | None:
    """Return the person who started an execution; None without one."""
    if not execution_id:
        return None
    rows = Execution.objects.filter(pk=int(execution_id)).select_related("created_by")
    return rows.only("created_by").get().created_by


def refused_tools(user: User, tools: Collection[str]) -> set[str]:
    """Return the tools of which people refused most of the latest calls that the user may see."""
    memory = import_string(settings.HOLDPOINT["tool_memory"])(user, tools).values()
    return {each.tool for each in memory if each.is_mostly_rejected}


def _questions_by_path(
    plan: Mapping[str, Any] | None, questions: Iterable[Question]
) -> dict[str, str]:
    """Return the questions by path, without those about missing inputs."""
    tasks = plan["tasks"] if plan else []
    places = {task["id"]: at for at, task in enumerate(tasks)}
    found: dict[str, list[str]] = {}
    for each in questions:
        if not each.is_about_input:
            path = _path(places[each.task], tasks[places[each.task]], each.argument)
            found.setdefault(path, []).append(each.text)
    return {path: " ".join(texts) for path, texts in found.items()}


def _path(at: int, task: Mapping[str, Any], argument: str) -> str:
    path = f"plan.tasks[{at}]"
    values = "arguments" if task["type"] == "tool" else "inputs"
    return f"{path}.{values}.{argument}" if argument else path


def _with_questions(
    why: dict[str, dict[str, Any]], questions: Iterable[Question]
) -> dict[str, dict[str, Any]]:
    listed = list(questions)
    return {
        task: {**each, "questions": [asked.text for asked in listed if asked.task == task]}
        for task, each in why.items()
    }


def search_tools(query: str, *, limit: int, read_only: bool | None) -> search.Answer:
    """Return the enabled tools that match a query in plain words, best first."""
    return search.search(query, limit=limit, filters=search.Filters(read_only=read_only))


def with_required_reviews(
    plan: Plan,
    begun: Collection[str],
    added: Collection[str] = (),
    reviewers: Collection[str] | None = None,
) -> Plan:
    """Return the plan with the reviews that the catalogue requires now; see `rechecked`."""
    return rechecked(plan, begun, known_tools, capabilities.known, added, reviewers)


class CataloguePlanner:
    """An engine.ports.Planner that uses the tool graph, and the language model if there is one.

    A tool that people mostly refused, in runs that the starter of the execution sees, comes later.
    """

    def __init__(self, *, with_model: bool = True) -> None:
        self._with_model = with_model

    def replan(
        self,
        *,
        plan: Plan,
        finished: Mapping[str, FinishedTask],
        begun: frozenset[str],
        requirement: str,
        context: Mapping[str, Any],
        inputs: Mapping[str, Any],
        execution_id: str = "",
    ) -> NewPlan:
        done = [name for name, each in finished.items() if each.status is TaskStatus.SUCCEEDED]
        try:
            plan = with_required_reviews(plan, begun)
        except PlanInvalid as invalid:
            raise TaskFailed(Reason("plan_invalid", {"error": str(invalid)})) from invalid
        written = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
        found = replanning.replan(
            written,
            done,
            requirement,
            context,
            inputs=inputs,
            refused=_refused_by_people(_starter(execution_id)),
            with_model=self._with_model,
        )
        if found.plan is None:
            raise TaskFailed(_failure(found.warnings, [near.tool for near in found.nearest]))
        asked = {each.argument: each.tool for each in found.questions if each.argument}
        if asked:
            raise TaskFailed(_needs(asked))
        try:
            changed = checked_plan(
                dict(found.plan), tool_schemas, capabilities.known, kept=plan.by_id
            )
        except PlanInvalid as invalid:
            raise TaskFailed(Reason("plan_invalid", {"error": str(invalid)})) from invalid
        added = [task for task in changed.tasks if task.id not in plan.by_id]
        _refuse_nulls(added, {**_outputs(finished), "inputs": inputs, "context": context})
        why = _with_questions(_reasons_by_task(found.reasons), found.questions)
        return NewPlan(changed, why)


def _needs(asked: Mapping[str, str]) -> Reason:
    """Return the question for arguments, which are given with the tool that needs each."""
    needs = ", ".join(f"{name} (for {tool})" for name, tool in asked.items())
    return Reason("plan_needs_inputs", {"inputs": needs})


def _outputs(finished: Mapping[str, FinishedTask]) -> dict[str, Any]:
    return {name: each.output for name, each in finished.items()}


def _refuse_nulls(added: Sequence[Spec], known: Mapping[str, Any]) -> None:
    """Raise TaskFailed with the question for required arguments that would be null.

    `known` has the outputs, inputs and context that there are; a reference to another task's output
    is not checked.
    """
    records = known_tools(task.tool for task in added if isinstance(task, ToolTask))
    null = {
        name: task.tool
        for task in added
        if isinstance(task, ToolTask) and task.tool in records
        for name in records[task.tool].required
        if known.keys() >= set(references(value := task.arguments.get(name)))
        and resolve(value, known) is None
    }
    if null:
        raise TaskFailed(_needs(null))


def _reasons_by_task(reasons: Iterable[TaskReason]) -> dict[str, dict[str, Any]]:
    """Return tool, confidence and reasons of each task by its id."""
    return {
        each.task: {
            "tool": each.tool,
            "confidence": each.confidence,
            "reasons": list(each.reasons),
        }
        for each in reasons
    }


def _failure(warnings: Iterable[str], nearest: Iterable[str]) -> Reason | str:
    """Return why no plan was found; a text where only the tool graph wrote it."""
    text, near = " ".join(warnings), ", ".join(nearest)
    problem: Reason | str = text or Reason("no_tool_fits")
    return Reason("nearest_tools", {"problem": problem, "tools": near}) if near else problem
