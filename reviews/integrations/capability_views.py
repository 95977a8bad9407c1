"""Capabilities: the list, and making one of a task that worked."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from reviews.components.views import SeeOther, current_user, page, visible_execution
from reviews.integrations.capabilities_page import capabilities_context
from workflows.engine.decide import Refused
from workflows.executions.access import may_operate
from workflows.permissions.capabilities import CapabilityInvalid
from workflows.tools.catalogue_sync import keep_capability


@login_required
@require_safe
def capabilities(request: HttpRequest) -> HttpResponse:
    """Code that worked once and is kept under a name."""
    return page(
        request, "reviews/integrations/capabilities.html", capabilities_context(), section="tools"
    )


@login_required
@require_POST
def make(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Keep the code of one task of this run; what is wrong is said on the run's page."""
    execution = visible_execution(request, execution_id)
    if not may_operate(current_user(request), execution):
        raise PermissionDenied(_("Operators, admins and whoever started a run keep its code."))
    task_id = request.POST.get("task_id", "")
    try:
        made = keep_capability(
            actor=current_user(request),
            execution=execution,
            task_id=task_id,
            name=request.POST.get("name", "").strip(),
        )
    except Refused as refusal:
        messages.error(request, refusal.message)
    except CapabilityInvalid as invalid:
        messages.error(request, "; ".join(each.message for each in invalid.problems))
    else:
        messages.success(request, _("Kept as the capability %(name)s.") % {"name": made.name})
        return SeeOther(f"{reverse('reviews:capabilities')}#capability-{made.name}")
    return SeeOther(reverse("reviews:run", args=(execution_id,)))
