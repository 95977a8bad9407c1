"""Grants in force, and taking one back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from reviews.components.views import SeeOther, current_user, cursor_or_404, page
from reviews.integrations.grants_page import grants_context
from workflows.engine.decide import Refused
from workflows.engine.task_errors import attempt_words
from workflows.permissions.grants import revoke, visible_grants


@login_required
@require_safe
def grants(request: HttpRequest) -> HttpResponse:
    """What tasks may do because somebody allowed it; `?all=1` for the whole ledger."""
    with cursor_or_404():
        context = grants_context(
            current_user(request),
            whole=request.GET.get("all") == "1",
            cursor=request.GET.get("cursor", ""),
        )
    return page(request, "reviews/integrations/grants.html", context, section="history")


@login_required
@require_POST
def revoke_grant(request: HttpRequest, grant_id: int) -> HttpResponse:
    """Take a grant back; what cannot be done is said on the page."""
    grant = get_object_or_404(visible_grants(current_user(request)), pk=grant_id)
    try:
        revoke(grant=grant, user=current_user(request))
    except Refused as refusal:
        messages.error(request, refusal.message)
    else:
        messages.success(
            request,
            _("Taken back: %(what)s.") % {"what": attempt_words(grant.operation, grant.resource)},
        )
    return SeeOther(reverse("reviews:grants"))
