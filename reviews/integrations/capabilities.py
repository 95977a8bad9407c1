"""Create a capability from a task that succeeded."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from reviews.components.reasons import render_reason
from reviews.components.views import SeeOther, current_user, visible_execution
from workflows.common.redaction import mask_secrets
from workflows.engine.protocol.decide import Refused
from workflows.executions.access import may_operate
from workflows.executions.selectors import TaskView
from workflows.models import Execution
from workflows.permissions.capabilities import CapabilityInvalid
from workflows.tools.catalogue_sync import keep_capability


def creation_offer(task: TaskView, execution: Execution, *, may_create: bool) -> dict[str, str]:
    """Return the URL that creates a capability from the task, "" if it cannot, and its logs."""
    allowed = may_create and task.type == "code_execution" and task.status == "SUCCEEDED"
    url = reverse("reviews:make_capability", args=(execution.pk,)) if allowed else ""
    return {"keep_url": url, "logs": mask_secrets(task.logs)}


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
        return SeeOther(reverse("reviews:tool", args=(f"capability.{capability.name}",)))
    return SeeOther(reverse("reviews:run", args=(execution_id,)))
