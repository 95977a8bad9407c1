"""API tokens: the list, making one (shown once), taking one back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from reviews.components.views import SeeOther, current_user, cursor_or_404, page
from reviews.integrations.tokens_page import make, sent_form, tokens_context
from workflows.executions.validation import InvalidRequest
from workflows.models import ApiToken
from workflows.permissions import step_up
from workflows.permissions.tokens import revoke

TEMPLATE, SECTION = "reviews/integrations/tokens.html", "tokens"


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("made")
def tokens(request: HttpRequest) -> HttpResponse:
    """My tokens.  A POST makes one; its answer is the only one that holds it."""
    user = current_user(request)
    if request.method != "POST":
        with cursor_or_404():
            context = tokens_context(user, cursor=request.GET.get("cursor", ""))
        return page(request, TEMPLATE, context, section=SECTION)
    sent = sent_form(request.POST)
    try:
        recent = step_up.is_recent(step_up.confirmed_at(request))
        made = make(user, sent, confirmed=recent)
    except InvalidRequest as invalid:
        context = tokens_context(user, errors=invalid.problems, sent=sent)
        return page(request, TEMPLATE, context, section=SECTION, status=422)
    return page(request, TEMPLATE, tokens_context(user, made=made), section=SECTION)


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Switch one of my tokens off for good."""
    mine = ApiToken.objects.filter(user=current_user(request).pk, pk=token_id)
    token = mine.first()
    if token is None:
        raise Http404
    if revoke(tokens=mine):
        messages.success(
            request,
            _("Revoked: %(name)s. It opens nothing now.") % {"name": token.name or token.prefix},
        )
    else:
        messages.success(
            request, _("%(name)s was revoked before.") % {"name": token.name or token.prefix}
        )
    return SeeOther(reverse("reviews:tokens"))
