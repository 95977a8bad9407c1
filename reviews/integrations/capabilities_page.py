"""Capabilities: the list, and the offer to make one of a task that worked."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import ngettext

from reviews.components.highlighting import lines_of
from workflows.common.redaction import mask_secrets
from workflows.executions.selectors import TaskView
from workflows.models import Capability, Execution
from workflows.permissions.capabilities import raised_sets

_LISTED = 500


def offer(task: TaskView, execution: Execution, *, may: bool) -> dict[str, str]:
    """Where a task's code can be kept; "" where it cannot."""
    fits = may and task.type == "code_execution" and task.status == "SUCCEEDED"
    url = reverse("reviews:make_capability", args=(execution.pk,)) if fits else ""
    return {"keep_url": url, "logs": mask_secrets(task.logs)}


def _worked(times: int) -> str:
    return ngettext("worked %(n)s time", "worked %(n)s times", times) % {"n": times}


def capabilities_context() -> dict[str, Any]:
    """The context of the list."""
    rows = list(Capability.objects.select_related("created_by")[:_LISTED])
    sets = raised_sets(rows)
    return {
        "rows": tuple(
            {
                "name": row.name,
                "description": row.description,
                "language": row.get_language_display(),
                "mode": row.get_approval_mode_display(),
                "missing": not row.enabled,
                "worked": _worked(row.success_count),
                "allows": tuple(each for each in sets[row.pk].sentences()),
                "lines": tuple(
                    {"number": line.number, "markup": line.markup, "marked": False}
                    for line in lines_of(row.code, row.language)
                ),
                "made_by": row.created_by.get_username() if row.created_by else "",
                "run_url": reverse("reviews:run", args=(row.from_execution_id,))
                if row.from_execution_id
                else "",
                "from_task": row.from_task,
            }
            for row in rows
        )
    }
