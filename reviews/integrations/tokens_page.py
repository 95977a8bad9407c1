"""The page of a person's own API tokens: what each may do, making one, taking one back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews import conf
from reviews.components import labels as components_labels
from reviews.queue import selectors
from workflows import conf as workflow_conf
from workflows.executions import access
from workflows.models import ApiToken
from workflows.permissions import step_up
from workflows.permissions.tokens import create_token, workflow_names

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_MEANS = {
    "read": N_("See runs, reviews and the catalogue."),
    "run": N_("Start runs and command them."),
    "decide": N_("Approve and reject as you. Never give this one to an agent."),
    "loosen": N_("Loosen policies when starting runs. Never give this one to an agent."),
    "decide_high_risk": N_("Make grants and approve high risk without a code."),
    "admin": N_("Keep workflows and make tokens."),
}
#: Value of the choice → words; days, and "" for no end.
_LASTS = {"30": N_("30 days"), "90": N_("90 days"), "365": N_("A year"), "": N_("No end")}
_MOST_WORKFLOWS = 200


@dataclass(frozen=True, slots=True)
class Made:
    """A token that was just made: the one time its text is shown."""

    name: str
    text: str


def tokens_context(
    user: User,
    *,
    cursor: str = "",
    made: Made | None = None,
    errors: Iterable[Any] = (),
    sent: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The context of the page.  Raises selectors.BadCursor."""
    rows = ApiToken.objects.filter(user=user.pk).order_by("-id")
    page = selectors.page(rows, cursor=cursor, size=conf.page_size())
    base = reverse("reviews:tokens")
    return {
        "rows": tuple(_row(each) for each in page.rows),
        "made": made,
        "form": _form(user, sent or {}),
        "errors": components_labels.faults(errors),
        "next_url": f"{base}?cursor={page.next}" if page.next else "",
        "previous_url": base if cursor else "",
        "page_words": "",
    }


def _row(token: ApiToken) -> dict[str, Any]:
    names = workflow_names(token)
    over = token.expires_at is not None and token.expires_at <= timezone.now()
    return {
        "name": token.name or _("Without a name"),
        "prefix": token.prefix,
        "scopes": ", ".join(token.scopes),
        "only": "" if names is None else ", ".join(names) or _("workflows that are gone"),
        "made_at": token.created_at,
        "used_at": token.last_used_at,
        "ends_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "state": "REVOKED" if token.revoked_at else "OVER" if over else "LIVE",
        "revoke_url": reverse("reviews:revoke_token", args=(token.pk,)),
    }


def _form(user: User, sent: Mapping[str, Any]) -> dict[str, Any]:
    is_admin = access.ADMIN in access.roles_of(user)
    scopes, only = sent.get("scopes", ["read"]), sent.get("workflows") or []
    workflows = access.workflows_for(user).filter(enabled=True).order_by("title")
    return {
        "name": sent.get("name", ""),
        "scopes": tuple(
            {"value": scope, "means": _(means), "checked": scope in scopes}
            for scope, means in _MEANS.items()
            if (scope != "admin" or is_admin)
            and (scope != access.LOOSEN or user.has_perm(access.LOOSEN_POLICY))
            and (scope != step_up.SCOPE or workflow_conf.step_up() != "off")
        ),
        "lasts": tuple(
            {"value": value, "words": _(text), "selected": value == sent.get("lasts", "90")}
            for value, text in _LASTS.items()
        ),
        "workflows": tuple(
            {"value": each.name, "words": each.title, "checked": each.name in only}
            for each in workflows[:_MOST_WORKFLOWS]
        ),
    }


def sent_form(posted: QueryDict) -> dict[str, Any]:
    """What the page's form says; `lasts` is one of the choices."""
    lasts = posted.get("lasts", "90")
    return {
        "name": posted.get("name", "").replace("\0", "").strip(),
        "scopes": posted.getlist("scopes"),
        "lasts": lasts if lasts in _LASTS else "90",
        "workflows": [name for name in posted.getlist("workflows") if "\0" not in name],
    }


def make(user: User, sent: Mapping[str, Any], *, confirmed: bool) -> Made:
    """The token that the form asks for; raises InvalidRequest.

    `confirmed`: whether the person entered a code of a second factor lately.
    """
    days = sent["lasts"]
    token, text = create_token(
        user=user,
        name=sent["name"],
        scopes=sent["scopes"],
        expires_at=timezone.now() + timedelta(days=int(days)) if days else None,
        workflows=sent["workflows"] or None,
        confirmed=confirmed,
    )
    return Made(name=token.name or token.prefix, text=text)
