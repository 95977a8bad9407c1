"""A run's plan as the draft of a workflow, without the secrets in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext as _

from reviews.audit.reveals import task_rules
from reviews.decisions.masking import masked
from workflows.engine.policy import Policy
from workflows.executions.selectors import revision_of, tasks_of
from workflows.models import Execution

from . import editor_draft
from .editor_draft import EditorDraft
from .fields import values_name, values_of


def draft_of_run(execution: Execution) -> EditorDraft:
    """Return the draft of a new workflow with the present plan and policy of a run.

    Arguments with masked values are left out, with a warning, because the draft is not masked.
    """
    written = revision_of(execution).plan.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )
    rules = task_rules(execution, tasks_of(execution))
    warnings: list[str] = []
    tasks: list[dict[str, Any]] = []
    for task in written["tasks"]:
        values = values_of(task)
        shown: Any = masked(values, rules[task["id"], "inputs"]).value
        kept = {name: value for name, value in values.items() if shown[name] == value}
        warnings += [
            _("%(task)s.%(name)s holds a masked value; enter it again.")
            % {"task": task["id"], "name": name}
            for name in values.keys() - kept.keys()
        ]
        code = task.get("code")
        if code is not None and (hidden := masked(code).value) != code:
            task = {**task, "code": hidden}
            warnings.append(_("The code of %(task)s holds a masked value.") % {"task": task["id"]})
        tasks.append({**task, values_name(task): kept})
    policy = Policy.model_validate(execution.policy)
    draft = editor_draft.of_run(
        execution,
        {"tasks": tasks},
        policy.model_dump(mode="json", exclude_defaults=True, exclude={"review_rules"}),
    )
    return replace(draft, warnings=tuple(sorted(warnings)))
