"""Plans that a language model drafts from the tools that were found, checked like any other."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from django.utils.module_loading import import_string

from graphrag import conf
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import argument_sources, parameters, plans, step_tasks
from graphrag.planning.arguments import FilledArguments
from graphrag.planning.draft import Draft, TaskReason
from graphrag.planning.plans import InvalidPlan, PlanDict

logger = logging.getLogger(__name__)

_REASON = "drafted by the language model"


class DraftFailed(Exception):
    """Raised by a drafter; the message says why."""


class Drafter(Protocol):
    """Drafts a plan of some of the tools; raises DraftFailed.

    ``earlier`` are the finished tasks of a running plan, with their tools: new ones may read their
    outputs. None for a new plan.
    """

    def __call__(
        self,
        intent: str,
        inputs: Mapping[str, Any],
        tools: Sequence[ToolRecord],
        most: int,
        earlier: Mapping[str, ToolRecord] | None,
    ) -> PlanDict: ...


def redrafted(
    draft: Draft,
    new_draft: Callable[[], Draft],
    intent: str,
    inputs: Mapping[str, Any],
    anchors: Sequence[str] | None = None,
) -> Draft:
    """Return the language model's draft, or the given one with a warning if there is none.

    Without a configured model, the given draft is returned as it is. ``new_draft`` returns the
    draft before its tasks were added; tasks that depend on nothing follow the ``anchors`` of a
    running plan.
    """
    path = conf.plan_drafter()
    if not path or not draft.candidates:
        return draft
    drafter: Drafter = import_string(path)
    tools = [each.tool for each in draft.candidates.values()]
    empty = new_draft()
    try:
        earlier = {name: record for name, record in empty.earlier.items() if record}
        running = None if anchors is None else earlier
        plan = drafter(intent, inputs, tools, draft.max_tasks, running)
        return _checked(draft, empty, plan, inputs, anchors or ())
    except (DraftFailed, InvalidPlan) as error:
        logger.warning("the language model drafted no plan: %s", error)
        draft.warnings.append(f"Planned without the language model: {error}.")
        return draft


def _checked(
    by_rules: Draft,
    draft: Draft,
    plan: PlanDict,
    inputs: Mapping[str, Any],
    anchors: Sequence[str],
) -> Draft:
    """Add the tasks of the plan to the empty draft, in the order in which they run.

    :raises InvalidPlan: for a tool that was not offered, too many tasks, or a plan without layers.
    """
    draft.candidates, draft.nearest = by_rules.candidates, by_rules.nearest
    tasks = plans.tasks_of(plan)
    if not tasks or len(tasks) > draft.max_tasks:
        raise InvalidPlan(f"the plan has {len(tasks)} tasks, of {draft.max_tasks} at most")
    names: dict[str, str] = {name: name for name in draft.earlier}
    whole = {"tasks": [*({"id": name} for name in names), *tasks.values()]}
    for layer in plans.layers(whole):
        for name in layer:
            if name in names:
                continue
            candidate = draft.candidates.get(plans.tool_name(tasks[name]) or "")
            if candidate is None:
                raise InvalidPlan(f"task '{name}' has a tool that was not offered")
            filled = _filled(candidate.tool, tasks[name], names, inputs)
            after = [names[each] for each in plans.depends_on(tasks[name])]
            after = after or ([] if filled.uses else list(anchors))
            task = names[name] = draft.add(candidate.tool, filled, after)
            confidence = round(candidate.confidence, 4)
            draft.reasons.append(TaskReason(task, candidate.tool.name, confidence, (_REASON,)))
            step_tasks.ask(draft, task, candidate.tool, filled)
    return draft


def _filled(
    tool: ToolRecord, task: Mapping[str, Any], names: Mapping[str, str], inputs: Mapping[str, Any]
) -> FilledArguments:
    """Return the arguments with the ids of this draft.

    A required argument that is missing or null becomes an input, which is asked for.
    """
    given = task.get("arguments")
    values = {
        name: _renamed(value, names)
        for name, value in (given if isinstance(given, Mapping) else {}).items()
        if name in tool.parameters
    }
    missing = []
    for each in parameters.parameters_of(tool):
        reads = values.get(each.name)
        unknown = isinstance(reads, Mapping) and _unknown_input(reads, inputs)
        if unknown or (each.is_required and reads is None and not each.has_default):
            name = argument_sources.identifier(each.name)
            values[each.name] = {"$from": "inputs", "select": name}
            if inputs.get(each.name) is None:
                missing.append(each.name)
    return FilledArguments(values, tuple(missing))


def _unknown_input(reference: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    select = reference.get("select")
    name = str(select).split(".")[0].strip('"')
    return reference.get("$from") == "inputs" and inputs.get(name) is None


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value whose references have the ids of this draft, at any depth."""
    if isinstance(value, Mapping):
        origin = value.get("$from")
        renamed = {key: _renamed(item, names) for key, item in value.items()}
        known = isinstance(origin, str) and origin in names
        return {**renamed, "$from": names[str(origin)]} if known else renamed
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return value
