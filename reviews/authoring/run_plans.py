"""A run's or another workflow's plan as the draft of a workflow, without the secrets in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from reviews.audit.reveals import task_rules
from reviews.decisions.masking import Rules, masked
from workflows.engine.policy.policies import Policy
from workflows.executions.selectors import revision_of, tasks_of
from workflows.models import Execution, Workflow

from . import editor_draft
from .definition_view import definition_rules, shown_definition
from .editor_draft import EditorDraft
from .fields import values_name, values_of
from .rights import may_save

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def draft_of_run(execution: Execution) -> EditorDraft:
    """Return the draft of a new workflow with the present plan and policy of a run.

    Arguments with masked values are left out, with a warning, because the draft is not masked.
    """
    written = revision_of(execution).plan.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )
    rules = task_rules(execution, tasks_of(execution))
    warnings: list[str] = []
    tasks = []
    for task in written["tasks"]:
        task.pop("output", None)  # what an outside agent had executed already
        of_inputs = rules[task["id"], "inputs"]
        shown = masked(values_of(task), of_inputs).value
        tasks.append(_without_masked(task, shown, of_inputs, warnings))
    policy = Policy.model_validate(execution.policy)
    draft = editor_draft.of_run(
        execution,
        {"tasks": tasks},
        policy.model_dump(
            mode="json", exclude_defaults=True, exclude={"review_rules", "business_hours"}
        ),
    )
    return replace(draft, warnings=tuple(sorted(warnings)))


def draft_of_copy(user: User, workflow: Workflow) -> EditorDraft:
    """Return the draft of a copy; without masked values for people who cannot save workflows."""
    draft = editor_draft.copy_of(workflow)
    if may_save(user):
        return draft
    shown = shown_definition(workflow)
    warnings: list[str] = []
    rules = definition_rules(workflow)
    tasks = [
        _without_masked(task, values_of(seen), rules, warnings)
        for task, seen in zip(draft.tasks, shown["plan"].get("tasks", ()), strict=True)
    ]
    inputs = {
        name: value
        for name, value in draft.default_inputs.items()
        if shown["default_inputs"].get(name) == value
    }
    warnings += [
        _("The default value of %(name)s is masked; enter it again.") % {"name": name}
        for name in draft.default_inputs.keys() - inputs.keys()
    ]
    return replace(
        draft,
        plan={**draft.plan, "tasks": tasks},
        default_inputs=inputs,
        warnings=tuple(sorted(warnings)),
    )


def _without_masked(
    task: dict[str, Any], shown: Any, rules: Rules, warnings: list[str]
) -> dict[str, Any]:
    """Return a task without the arguments that differ from `shown`, and with its code masked."""
    values = values_of(task)
    kept = {name: value for name, value in values.items() if shown.get(name) == value}
    warnings += [
        _("%(task)s.%(name)s holds a masked value; enter it again.")
        % {"task": task.get("id"), "name": name}
        for name in values.keys() - kept.keys()
    ]
    code = task.get("code")
    if code is not None and (hidden := masked(code, Rules(None, rules.paths)).value) != code:
        task = {**task, "code": hidden}
        warnings.append(_("The code of %(task)s holds a masked value.") % {"task": task.get("id")})
    return {**task, values_name(task): kept}
