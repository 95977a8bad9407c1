"""What every page needs: the person, the frame's context, 404 for what is not visible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from reviews.decisions.rights import group_names
from reviews.decisions.services import HoldNotFound, visible_hold
from reviews.notifications import inbox
from reviews.notifications.pages import bell_label
from reviews.queue import selectors
from workflows.executions.access import cache_groups, visible_to
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Characters of a search text that are looked at.
_LONGEST_QUERY = 200


class SeeOther(HttpResponseRedirect):
    """The answer to a POST that was done: look there, by GET."""

    status_code = 303


def current_user(request: HttpRequest) -> User:
    """The user of a request that has passed `login_required`.

    Who only looks brings the names of their groups along, for all that one page asks them for;
    before something is done, they are read anew.
    """
    user = cast("User", request.user)
    return cast("User", cache_groups(user)) if request.method in ("GET", "HEAD") else user


def warn(request: HttpRequest, warnings: Iterable[str]) -> None:
    """Show warnings of a use case on the next page."""
    for each in warnings:
        messages.warning(request, each)


def is_htmx(request: HttpRequest) -> bool:
    """Whether a fragment is asked for."""
    return request.headers.get("HX-Request") == "true"


def page(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    section: str,
    status: int = 200,
) -> HttpResponse:
    """A whole page in the frame; its rail count is read unless `context` has it."""
    user = current_user(request)
    frame = {"section": section, "roles": tuple(sorted(group_names(user))), **context}
    if "waiting_count" not in frame:
        frame["waiting_count"] = selectors.waiting_count(user)
    frame["unread"] = inbox.unread_count(user)
    frame["unread_words"] = bell_label(frame["unread"])
    response = render(request, template, frame, status=status)
    return _vary(response)


def fragment(
    request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """A part of a page."""
    return _vary(render(request, template, context, status=status))


def _vary(response: HttpResponse) -> HttpResponse:
    # One address gives a page or a fragment: caches and the back button must tell them apart.
    patch_vary_headers(response, ["HX-Request"])
    response["Cache-Control"] = "no-store"
    return response


def search_text(request: HttpRequest, name: str) -> str:
    """A query parameter as a search text that the database can take."""
    return request.GET.get(name, "").replace("\0", "").strip()[:_LONGEST_QUERY]


@contextmanager
def cursor_or_404() -> Iterator[None]:
    """Around reading a page of a list: a cursor that is none of the list's is Http404."""
    try:
        yield
    except selectors.BadCursor:
        raise Http404 from None


def visible_execution(request: HttpRequest, execution_id: int) -> Execution:
    """An execution the person may see, with workflow and creator; Http404 otherwise."""
    rows = visible_to(current_user(request)).select_related("workflow", "created_by")
    found = rows.filter(pk=execution_id).first()
    if found is None:
        raise Http404
    return found


def hold_or_404(request: HttpRequest, execution_id: int, hold_id: str) -> Hold:
    """A hold of that execution which the person may see; Http404 otherwise."""
    try:
        hold = visible_hold(current_user(request), hold_id.replace("\0", ""))
    except HoldNotFound:
        raise Http404 from None
    if hold.execution_id != execution_id:
        raise Http404
    return hold
