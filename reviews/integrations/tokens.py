"""Pages of a user's API tokens: the list, creating and revoking one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from reviews import conf
from reviews.components import labels as components_labels
from reviews.components.views import SeeOther, current_user, cursor_or_404, page
from workflows import conf as workflow_conf
from workflows.common import keyset
from workflows.executions import access
from workflows.executions.validation import InvalidRequest
from workflows.models import ApiToken, Gate
from workflows.permissions import step_up
from workflows.permissions.tokens import (
    create_token,
    gate_names,
    revoke,
    workflow_names,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_SCOPE_DESCRIPTIONS = {
    "read": N_("See runs, reviews and the catalogue."),
    "ask": N_("Ask for approvals and read the answers. Enough for an agent that runs elsewhere."),
    "gate": N_("Call tools through MCP gates. Enough for an agent that only uses a gate."),
    "run": N_("Start runs and command them."),
    "decide": N_("Approve and reject as you. Never give this one to an agent."),
    "loosen": N_("Loosen policies when starting runs. Never give this one to an agent."),
    "decide_high_risk": N_("Give grants and approve high-risk actions without a second factor."),
    "admin": N_("Manage workflows and create tokens."),
}
#: Labels by lifetime in days; "" is unlimited.
_LIFETIMES = {"30": N_("30 days"), "90": N_("90 days"), "365": N_("1 year"), "": N_("No expiry")}
_MAX_WORKFLOWS = 200


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just created; its text is shown only once."""

    name: str
    text: str


def tokens_context(
    user: User,
    *,
    cursor: str = "",
    made: NewToken | None = None,
    errors: Iterable[Any] = (),
    submitted: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the context of the list.  Raises keyset.BadCursor."""
    rows = ApiToken.objects.filter(user=user.pk).order_by("-id")
    page = keyset.page(rows, cursor=cursor, size=conf.page_size())
    base = reverse("reviews:tokens")
    return {
        "rows": tuple(_row(each) for each in page.rows),
        "made": made,
        "form": _form(user, submitted or {}),
        "errors": components_labels.faults(errors),
        "next_url": f"{base}?cursor={page.next}" if page.next else "",
        "previous_url": base if cursor else "",
    }


def _row(token: ApiToken) -> dict[str, Any]:
    over = token.expires_at is not None and token.expires_at <= timezone.now()
    return {
        "name": token.name or _("Without a name"),
        "prefix": token.prefix,
        "scopes": ", ".join(token.scopes),
        "only": _limits(token),
        "made_at": token.created_at,
        "used_at": token.last_used_at,
        "ends_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "state": "REVOKED" if token.revoked_at else "OVER" if over else "LIVE",
        "revoke_url": reverse("reviews:revoke_token", args=(token.pk,)),
    }


def _limits(token: ApiToken) -> str:
    """Return the workflows or gates that a token is limited to; "" if it is not limited."""
    names, gates = workflow_names(token), gate_names(token)
    if names is not None:
        return ", ".join(names) or _("deleted workflows")
    if gates is not None:
        return ", ".join(gates) or _("deleted gates")
    return ""


def _form(user: User, submitted: Mapping[str, Any]) -> dict[str, Any]:
    is_admin = access.ADMIN in access.roles_of(user)
    scopes, only = submitted.get("scopes", ["read"]), submitted.get("workflows") or []
    only_gates = submitted.get("gates") or []
    workflows = access.workflows_for(user).filter(enabled=True).order_by("title")
    return {
        "name": submitted.get("name", ""),
        "scopes": tuple(
            {"value": scope, "means": _(description), "checked": scope in scopes}
            for scope, description in _SCOPE_DESCRIPTIONS.items()
            if (scope != "admin" or is_admin)
            and (scope != access.LOOSEN or user.has_perm(access.LOOSEN_POLICY))
            and (scope != step_up.SCOPE or workflow_conf.step_up() != "off")
        ),
        "lasts": tuple(
            {"value": value, "words": _(text), "selected": value == submitted.get("lasts", "90")}
            for value, text in _LIFETIMES.items()
        ),
        "workflows": tuple(
            {"value": each.name, "words": each.title, "checked": each.name in only}
            for each in workflows[:_MAX_WORKFLOWS]
        ),
        "gates": tuple(
            {"value": each.name, "words": each.name, "checked": each.name in only_gates}
            for each in Gate.objects.filter(enabled=True)[:_MAX_WORKFLOWS]
        ),
    }


def _submitted(posted: QueryDict) -> dict[str, Any]:
    """Read the form; an unknown lifetime becomes the default."""
    lasts = posted.get("lasts", "90")
    return {
        "name": posted.get("name", "").replace("\0", "").strip(),
        "scopes": posted.getlist("scopes"),
        "lasts": lasts if lasts in _LIFETIMES else "90",
        "workflows": [name for name in posted.getlist("workflows") if "\0" not in name],
        "gates": [name for name in posted.getlist("gates") if "\0" not in name],
    }


def _create(user: User, submitted: Mapping[str, Any], *, confirmed: bool) -> NewToken:
    """Create the token; raises InvalidRequest.

    `confirmed`: whether the user recently entered a second-factor code.
    """
    days = submitted["lasts"]
    token, text = create_token(
        user=user,
        name=submitted["name"],
        scopes=submitted["scopes"],
        expires_at=timezone.now() + timedelta(days=int(days)) if days else None,
        workflows=submitted["workflows"] or None,
        gates=submitted["gates"] or None,
        confirmed=confirmed,
    )
    return NewToken(name=token.name or token.prefix, text=text)


# --- views ----------------------------------------------------------------------------------------

TEMPLATE, SECTION = "reviews/integrations/tokens.html", "tokens"


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("made")
def token_list(request: HttpRequest) -> HttpResponse:
    """List the user's tokens; a POST creates one, and only its response shows the text."""
    user = current_user(request)
    if request.method != "POST":
        with cursor_or_404():
            context = tokens_context(user, cursor=request.GET.get("cursor", ""))
        return page(request, TEMPLATE, context, section=SECTION)
    submitted = _submitted(request.POST)
    try:
        recent = step_up.is_recent(step_up.confirmed_at(request))
        made = _create(user, submitted, confirmed=recent)
    except InvalidRequest as invalid:
        context = tokens_context(user, errors=invalid.problems, submitted=submitted)
        return page(request, TEMPLATE, context, section=SECTION, status=422)
    return page(request, TEMPLATE, tokens_context(user, made=made), section=SECTION)


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of the user's tokens."""
    mine = ApiToken.objects.filter(user=current_user(request).pk, pk=token_id)
    token = mine.first()
    if token is None:
        raise Http404
    if revoke(tokens=mine):
        messages.success(
            request,
            _("Revoked: %(name)s.") % {"name": token.name or token.prefix},
        )
    else:
        messages.success(
            request, _("%(name)s was already revoked.") % {"name": token.name or token.prefix}
        )
    return SeeOther(reverse("reviews:tokens"))
