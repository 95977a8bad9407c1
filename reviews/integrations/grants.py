"""Pages of permission grants: the list, and revoking one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from reviews import conf
from reviews.components import labels as components_labels
from reviews.components.number_formatting import counted
from reviews.components.reasons import render_reason
from reviews.components.views import SeeOther, current_user, cursor_or_404, page
from reviews.decisions.permission_requests import scope_words
from reviews.decisions.standing_answer_form import standing_sentence
from workflows.common import keyset
from workflows.engine.plans.task_errors import attempt_reason
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.decide import Refused
from workflows.models import Grant
from workflows.permissions.grants import in_force, may_revoke, revoke, visible_grants

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def grants_context(user: User, *, whole: bool, cursor: str) -> dict[str, Any]:
    """Return the context of the list, with `whole` including ended grants.  Raises BadCursor."""
    rows = visible_grants(user) if whole else in_force(user)
    page = keyset.page(rows, cursor=cursor, size=conf.page_size())
    live = set(in_force(user).filter(pk__in=[row.pk for row in page.rows]).values_list("pk"))
    base = reverse("reviews:grants")
    query = "all=1&" if whole else ""
    return {
        "rows": tuple(_row(user, row, is_live=(row.pk,) in live) for row in page.rows),
        "whole": whole,
        "other_url": base if whole else f"{base}?all=1",
        "next_url": f"{base}?{query}cursor={page.next}" if page.next else "",
        "previous_url": f"{base}?{query}".rstrip("?&") if cursor else "",
    }


def _row(user: User, grant: Grant, *, is_live: bool) -> dict[str, Any]:
    return {
        "id": grant.pk,
        "sentence": _sentence(grant),
        "scope": scope_words(grant),
        "run_title": components_labels.run_title(grant.execution.title, grant.execution_id),
        "run_url": reverse("reviews:run", args=(grant.execution_id,)),
        "decision_url": reverse("reviews:decision", args=(grant.execution_id, grant.hold_id)),
        "by": grant.granted_by,
        "by_id": grant.granted_by_id,
        "at": grant.granted_at,
        "why": grant.why,
        "uses": counted(grant.uses, "use") if grant.uses else _("not used yet"),
        "used_at": grant.last_used_at,
        "until": grant.expires_at,
        "state": "REVOKED" if grant.revoked_at else "LIVE" if is_live else "OVER",
        "revoked_by": grant.revoked_by,
        "revoked_at": grant.revoked_at,
        "revoke_url": reverse("reviews:revoke_grant", args=(grant.pk,))
        if is_live and may_revoke(user, grant)
        else "",
    }


def _sentence(grant: Grant) -> str:
    if grant.scope == Grant.Scope.STANDING:
        return standing_sentence(grant)
    return components_labels.allowed_text(PermissionSet.model_validate(grant.permissions))


# --- views ----------------------------------------------------------------------------------------


@login_required
@require_safe
def grant_list(request: HttpRequest) -> HttpResponse:
    """List the grants in force, or with `?all=1` all grants."""
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
    """Revoke a grant; errors are shown on the page."""
    grant = get_object_or_404(visible_grants(current_user(request)), pk=grant_id)
    try:
        revoke(grant=grant, user=current_user(request))
    except Refused as refusal:
        messages.error(request, render_reason(refusal.reason))
    else:
        messages.success(
            request,
            _("Revoked: %(what)s.")
            % {"what": render_reason(attempt_reason(grant.operation, grant.resource))},
        )
    return SeeOther(reverse("reviews:grants"))
