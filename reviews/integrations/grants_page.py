"""The page of grants in force: what somebody allowed, how far it reaches, and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _

from reviews import conf
from reviews.components import labels as components_labels
from reviews.components.number_formatting import counted
from reviews.decisions.escalation import scope_words
from reviews.queue import selectors
from workflows.engine.permissions import PermissionSet
from workflows.models import Grant
from workflows.permissions.grants import in_force, may_revoke, visible_grants

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def grants_context(user: User, *, whole: bool, cursor: str) -> dict[str, Any]:
    """The context of the page; with `whole` also what is over.  Raises selectors.BadCursor."""
    rows = visible_grants(user) if whole else in_force(user)
    page = selectors.page(rows, cursor=cursor, size=conf.page_size())
    live = set(in_force(user).filter(pk__in=[row.pk for row in page.rows]).values_list("pk"))
    base = reverse("reviews:grants")
    kept = "all=1&" if whole else ""
    return {
        "rows": tuple(_row(user, row, is_live=(row.pk,) in live) for row in page.rows),
        "whole": whole,
        "other_url": base if whole else f"{base}?all=1",
        "next_url": f"{base}?{kept}cursor={page.next}" if page.next else "",
        "previous_url": f"{base}?{kept}".rstrip("?&") if cursor else "",
        "page_words": "",
    }


def _row(user: User, grant: Grant, *, is_live: bool) -> dict[str, Any]:
    return {
        "id": grant.pk,
        "sentence": components_labels.allowed_text(PermissionSet.model_validate(grant.permissions)),
        "scope": scope_words(grant),
        "run_title": components_labels.run_title(grant.execution.title, grant.execution_id),
        "run_url": reverse("reviews:run", args=(grant.execution_id,)),
        "decision_url": reverse("reviews:decision", args=(grant.execution_id, grant.hold_id)),
        "by": grant.granted_by,
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
