"""Saved views of the queue, private or shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl

from django.db import IntegrityError, transaction
from django.db.models import Q

from reviews.decisions.edits import ReviewInvalid
from reviews.models import SavedView
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import FieldError

from .filters import query_string
from .selectors import TABS

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Views that one person may keep.
MAX_VIEWS: Final = 50


class ViewNotFound(Exception):
    """There is no such view of this person."""


class ListedView(NamedTuple):
    """A saved view in the list of a user, with the name of its owner."""

    pk: int
    name: str
    query: str
    shared: bool
    owner_id: int
    owner: str


def views_for(user: User) -> list[ListedView]:
    """The user's own views, then the shared views of others."""
    rows = SavedView.objects.filter(Q(owner=user) | Q(shared=True))
    rows = rows.order_by("shared", "name", "pk")
    return [
        ListedView(*row)
        for row in rows.values_list("pk", "name", "query", "shared", "owner_id", "owner__username")
    ]


def save_view(*, user: User, name: str, query: str, shared: bool) -> SavedView:
    """Save the queue's query string under a name; an existing view of that name is overwritten.

    Raises ReviewInvalid with field errors.
    """
    name = name.strip()
    if not 1 <= len(name) <= 60 or not name.isprintable():
        raise ReviewInvalid([FieldError("name", "must have between 1 and 60 plain characters")])
    name = mask_secrets(name)[:60]
    if SavedView.objects.filter(owner=user).exclude(name=name).count() >= MAX_VIEWS:
        raise ReviewInvalid([FieldError("name", f"is one too many: {MAX_VIEWS} views are kept")])
    canonical = canonical_query(query)
    try:
        with transaction.atomic():
            view, _ = SavedView.objects.update_or_create(
                owner=user, name=name, defaults={"query": canonical, "shared": shared}
            )
    except IntegrityError:
        raise ReviewInvalid([FieldError("name", "is being saved just now")]) from None
    return view


def remove_view(*, user: User, view_id: int) -> SavedView:
    """Delete a view of the user and return it; raises ViewNotFound."""
    view = SavedView.objects.filter(owner=user, pk=view_id).first()
    if view is None:
        raise ViewNotFound
    SavedView.objects.filter(pk=view.pk).delete()
    return view


def canonical_query(query: str) -> str:
    """Keep only the known parameters, in canonical order, masked; at most 1,000 characters."""
    try:
        pairs = {
            name: mask_secrets(value)
            for name, value in parse_qsl(query.replace("\0", "")[:4000], max_num_fields=50)
        }
    except ValueError:
        return ""
    tab = pairs.get("tab", "me")
    canonical = query_string(pairs, tab=tab if tab in TABS else "me")
    return canonical if len(canonical) <= 1000 else ""
