"""Pages of capabilities: the list, and creating one from a task that succeeded."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from reviews.components.highlighting import lines_of
from reviews.components.reasons import render_reason
from reviews.components.views import SeeOther, current_user, page, visible_execution
from workflows.common.redaction import mask_secrets
from workflows.engine.decide import Refused
from workflows.executions.access import may_operate
from workflows.executions.selectors import TaskView
from workflows.models import Capability, Execution
from workflows.permissions.capabilities import CapabilityInvalid, raised_sets
from workflows.tools.catalogue_sync import keep_capability

_LISTED = 500


def creation_offer(task: TaskView, execution: Execution, *, may_create: bool) -> dict[str, str]:
    """Return the URL that creates a capability from the task, "" if it cannot, and its logs."""
    allowed = may_create and task.type == "code_execution" and task.status == "SUCCEEDED"
    url = reverse("reviews:make_capability", args=(execution.pk,)) if allowed else ""
    return {"keep_url": url, "logs": mask_secrets(task.logs)}


def _success_label(times: int) -> str:
    return ngettext("succeeded %(n)s time", "succeeded %(n)s times", times) % {"n": times}


def capabilities_context() -> dict[str, Any]:
    """Return the context of the list."""
    rows = list(Capability.objects.select_related("created_by")[:_LISTED])
    sets = raised_sets(rows)
    return {
        "rows": tuple(
            {
                "id": row.pk,
                "name": row.name,
                "description": row.description,
                "language": row.get_language_display(),
                "mode": row.get_approval_mode_display(),
                "missing": not row.enabled,
                "worked": _success_label(row.success_count),
                "allows": tuple(render_reason(each) for each in sets[row.pk].descriptions()),
                "lines": tuple(
                    {"number": line.number, "markup": line.markup, "marked": False}
                    for line in lines_of(row.code, row.language)
                ),
                "made_by": row.created_by.get_username() if row.created_by else "",
                "made_by_id": row.created_by_id,
                "run_url": reverse("reviews:run", args=(row.from_execution_id,))
                if row.from_execution_id
                else "",
                "from_task": row.from_task,
            }
            for row in rows
        )
    }


# --- views ----------------------------------------------------------------------------------------


@login_required
@require_safe
def capability_list(request: HttpRequest) -> HttpResponse:
    """List the capabilities."""
    return page(
        request, "reviews/integrations/capabilities.html", capabilities_context(), section="tools"
    )


@login_required
@require_POST
def create(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Create a capability from a task of the run; errors are shown on the run's page."""
    execution = visible_execution(request, execution_id)
    if not may_operate(current_user(request), execution):
        raise PermissionDenied(
            _("Capabilities are created by operators, admins or the run's starter.")
        )
    task_id = request.POST.get("task_id", "")
    try:
        capability = keep_capability(
            actor=current_user(request),
            execution=execution,
            task_id=task_id,
            name=request.POST.get("name", "").strip(),
        )
    except Refused as refusal:
        messages.error(request, render_reason(refusal.reason))
    except CapabilityInvalid as invalid:
        messages.error(request, "; ".join(each.message for each in invalid.problems))
    else:
        messages.success(request, _("Created the capability %(name)s.") % {"name": capability.name})
        return SeeOther(f"{reverse('reviews:capabilities')}#capability-{capability.name}")
    return SeeOther(reverse("reviews:run", args=(execution_id,)))
