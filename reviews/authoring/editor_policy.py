"""Review policies in the plan editor: the posted fields, the forms, and their errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from pydantic import ValidationError

from graphrag.planning.plans import dependencies
from reviews.backtests import preview
from reviews.backtests.pages import preview_text
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.permissions import NAMED
from workflows.engine.policy.policies import ReviewPolicy
from workflows.executions.access import may_backtest, workflows_for
from workflows.permissions import capabilities

from . import policy_form, rule_rows
from .fields import values_of
from .simulation import simulation_context

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import QueryDict

    from .editor_draft import EditorDraft


def with_policy_fields(draft: EditorDraft, data: QueryDict) -> EditorDraft:
    """Return the draft with the posted fields of the selected task's review and of the policy."""
    errors: list[FieldError] = []
    plan = draft.plan
    if 0 <= draft.selected < len(draft.tasks):
        tasks = list(draft.tasks)
        task, key = tasks[draft.selected], f"t{draft.selected}"
        review, errors = policy_form.posted_review(task, key, data)
        if review != task.get("human_review"):
            rest = {name: value for name, value in task.items() if name != "human_review"}
            tasks[draft.selected] = rest if review is None else {**rest, "human_review": review}
            plan = {**plan, "tasks": tasks}
    policy, more = policy_form.posted_policy(draft.policy, data)
    errors = [*errors, *more]
    problems = tuple(Problem(each.path, "unreadable", each.message) for each in errors)
    return replace(
        draft,
        plan=plan,
        policy=policy,
        problems=(*draft.problems, *problems),
        typed={**draft.typed, **policy_form.typed_texts(data, errors)},
    )


def with_policy(
    user: User,
    draft: EditorDraft,
    context: dict[str, Any],
    problems: Sequence[Problem],
    wanted: str,
) -> dict[str, Any]:
    """Return the context of the editor with the forms of its policies and the simulation.

    `problems` belong to the whole draft; `wanted` is the data of the simulation.
    """
    groups = policy_form.deciding_groups()
    simulation = simulation_context(user, draft, wanted)
    form = policy_form.policy_context(
        user, draft.policy, draft.typed, groups, binds=not context["may_save"]
    )
    slots, _rest = _sorted(problems, policy_form.slots_of(form), "policy")
    policy_form.add_errors(form, slots)
    context = {**context, "policy": form, "policy_slots": slots, "simulation": simulation}
    if context["task"]:
        context["task"] = _with_review(user, draft, context["task"], groups, simulation)
    if context["picture"] and simulation:
        context["picture"] = _with_marks(context["picture"], simulation)
    return context


def _with_marks(picture: dict[str, Any], simulation: dict[str, Any]) -> dict[str, Any]:
    """Return the diagram with a mark at each task and layer where the run may stop."""
    heads = picture["picture"].heads
    return {
        **picture,
        "nodes": tuple(_marked(node, simulation["marks"]) for node in picture["nodes"]),
        "heads": tuple(
            {"head": head, "mark": simulation["layer_marks"].get(layer)}
            for layer, head in enumerate(heads)
        ),
    }


def _marked(node: dict[str, Any], marks: Mapping[str, dict[str, str]]) -> dict[str, Any]:
    """Return a node of the diagram with the mark of its task, also in its spoken label."""
    mark = marks.get(node["node"].id)
    if mark is None or node["at"] is None:
        return node
    return {**node, "mark": mark, "label": f"{node['label']}. {mark['text']}"}


def _with_review(
    user: User,
    draft: EditorDraft,
    form: dict[str, Any],
    groups: Sequence[policy_form.GroupOption],
    simulation: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the form of the selected task with its review and its condition as rows."""
    task, key = draft.tasks[draft.selected], form["key"]
    outputs: Mapping[str, Sequence[str]] = (simulation or {}).get("outputs", {})
    review = policy_form.review_context(
        task, key, draft.typed, groups, fields=tuple(_review_fields(task, form, outputs))
    )
    review["fixed"] = _fixed_text(task, form)
    review["preview"] = _preview(user, draft, task)
    when = rule_rows.rows_context(
        f"{key}.when",
        str(task.get("when") or ""),
        draft.typed,
        fields=tuple(_condition_fields(draft, task, outputs)),
        modes=policy_form.when_modes(),
    )
    prefix = policy_form.review_key(key)
    slots, rest = _sorted(form["faults"], policy_form.slots_of(review), prefix)
    policy_form.add_errors(review, slots)
    return {
        **form,
        "review": review,
        "when_rows": when,
        "slots": {**form["slots"], **slots},
        "faults": tuple(rest),
    }


def _sorted(
    problems: Iterable[Problem], keys: Sequence[str], prefix: str
) -> tuple[dict[str, list[str]], list[Problem]]:
    """Sort problems by the key of their field; the others are returned as they are."""
    slots: dict[str, list[str]] = {key: [] for key in keys}
    rest = []
    for each in problems:
        path = re.sub(r"^plan\.tasks\[(\d+)\]", r"t\1", each.path)
        path = re.sub(r"\[(\d+)\]", r".\1", path)
        fits = [key for key in keys if path == key or path.startswith(f"{key}.")]
        if fits and path.startswith(prefix):
            slots[max(fits, key=len)].append(each.message)
        else:
            rest.append(each)
    return slots, rest


def _fixed_text(task: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    """Return what about the review of a task cannot be loosened, and why."""
    if task.get("type") == "capability":
        name = str(task.get("capability"))
        found = capabilities.known([name]).get(name)
        if found is not None and found.asks:
            return _("Fixed: this capability is reviewed before each use.")
    known = NAMED.get(str(task.get("permission_set") or form["permission"]))
    is_code = task.get("type") == "code_execution" and not task.get("permission_set")
    if not is_code and (known is None or known.is_beyond_reading):
        return _("Fixed: this task can modify data, so no rule skips a review before it runs.")
    return ""


def _preview(user: User, draft: EditorDraft, task: Mapping[str, Any]) -> str:
    """Return how many of the last reviews of a task its own condition would have skipped."""
    number = parse_natural_number(draft.workflow)
    if not number or not may_backtest(user):
        return ""
    try:
        review = ReviewPolicy.model_validate(task.get("human_review") or {})
    except ValidationError:
        return ""
    workflow = workflows_for(user).filter(pk=number).first()
    if workflow is None or not review.can_skip:
        return ""
    return preview_text(preview.of_review(workflow, str(task.get("id")), review))


def _review_fields(
    task: Mapping[str, Any], form: Mapping[str, Any], outputs: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the paths that a skip condition of the task may read."""
    for argument in form["arguments"] or [*values_of(task)]:
        yield rule_rows.path_text(("inputs", getattr(argument, "name", argument)))
    for key in outputs.get(str(task.get("id")), ()):
        yield rule_rows.path_text(("output", key))


def _condition_fields(
    draft: EditorDraft, task: dict[str, Any], outputs: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the paths that the condition of the task may read."""
    parts = draft.inputs_schema.get("properties")
    names = {*draft.default_inputs, *(parts if isinstance(parts, dict) else ())}
    for name in sorted(names):
        yield rule_rows.path_text(("inputs", name))
    for need in sorted(dependencies(task)):
        for key in outputs.get(need, ()):
            yield rule_rows.path_text((need, key))
