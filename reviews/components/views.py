"""Helpers of all views: the current user, rendering, and 404 for invisible objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers

from reviews.decisions.rights import group_names
from reviews.decisions.services import HoldNotFound, visible_hold
from reviews.notifications import inbox
from reviews.notifications.pages import bell_label
from reviews.queue import selectors
from workflows.common import keyset
from workflows.executions.access import cache_groups, visible_to
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The maximum length of a search text.
_MAX_QUERY_LENGTH = 200


class SeeOther(HttpResponseRedirect):
    """Redirect after a successful POST (303)."""

    status_code = 303


def current_user(request: HttpRequest) -> User:
    """Return the user of a request that has passed `login_required`.

    For GET and HEAD the user carries cached group names; other methods read them from the database.
    """
    user = cast("User", request.user)
    return cast("User", cache_groups(user)) if request.method in ("GET", "HEAD") else user


def warn(request: HttpRequest, warnings: Iterable[str]) -> None:
    """Show warnings of a service on the next page."""
    for each in warnings:
        messages.warning(request, each)


def is_htmx(request: HttpRequest) -> bool:
    """Return whether htmx requests a fragment."""
    return request.headers.get("HX-Request") == "true"


def page(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    section: str,
    status: int = 200,
) -> HttpResponse:
    """Render a whole page; queries `waiting_count` of the navigation unless `context` has it."""
    user = current_user(request)
    frame = {**context, **frame_context(user, section, context.get("waiting_count"))}
    response = render(request, template, frame, status=status)
    return _vary(response)


def frame_context(user: User, section: str, waiting_count: int | None = None) -> dict[str, Any]:
    """Return the context of rail and top bar, on the desk and in the admin."""
    if waiting_count is None:
        waiting_count = selectors.waiting_count(user)
    unread = inbox.unread_count(user)
    return {
        "section": section,
        "roles": tuple(sorted(group_names(user))),
        "waiting_count": waiting_count,
        "unread": unread,
        "unread_words": bell_label(unread),
    }


def fragment(
    request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render a part of a page."""
    return _vary(render(request, template, context, status=status))


def _vary(response: HttpResponse) -> HttpResponse:
    # One URL serves a page or a fragment: caches and the back button must distinguish them.
    patch_vary_headers(response, ["HX-Request"])
    response["Cache-Control"] = "no-store"
    return response


def search_text(request: HttpRequest, name: str) -> str:
    """Return a query parameter as a search text without NUL, limited in length."""
    return request.GET.get(name, "").replace("\0", "").strip()[:_MAX_QUERY_LENGTH]


@contextmanager
def cursor_or_404() -> Iterator[None]:
    """Turn BadCursor into Http404."""
    try:
        yield
    except keyset.BadCursor:
        raise Http404 from None


def visible_execution(request: HttpRequest, execution_id: int) -> Execution:
    """Return a visible execution with workflow and creator, or raise Http404."""
    rows = visible_to(current_user(request)).select_related("workflow", "created_by")
    found = rows.filter(pk=execution_id).first()
    if found is None:
        raise Http404
    return found


def posted_in_admin(request: HttpRequest) -> bool:
    """Whether the form that was posted is on a review's page in the admin."""
    return "in_admin" in request.POST


def back_to_review(request: HttpRequest, hold: Hold) -> SeeOther:
    """Redirect to the page of a review from which a form was posted: the desk's or the admin's."""
    if posted_in_admin(request):
        return SeeOther(reverse("admin:workflows_hold_change", args=(quote(hold.pk),)))
    return SeeOther(reverse("reviews:decision", args=(hold.execution_id, hold.pk)))


def hold_or_404(request: HttpRequest, execution_id: int, hold_id: str) -> Hold:
    """Return a visible hold of the execution, or raise Http404."""
    try:
        hold = visible_hold(current_user(request), hold_id.replace("\0", ""))
    except HoldNotFound:
        raise Http404 from None
    if hold.execution_id != execution_id:
        raise Http404
    return hold
