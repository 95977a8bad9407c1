"""One answer to many reviews, and views of the queue kept under a name."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from reviews.components.views import SeeOther, fragment, person
from reviews.decisions.edits import ReviewInvalid
from reviews.queue import bulk as many
from reviews.queue import saved_views
from reviews.queue.bulk_page import bulk_context
from workflows.common.number_parsing import parse_natural_number
from workflows.permissions import step_up


@login_required
@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """`hold` is repeated as `<id>@<version>`; answers with a result per hold, as a fragment."""
    wanted = many.Request(
        action=cast("many.Action", request.POST.get("action", "")),
        comment=request.POST.get("comment", "").replace("\r\n", "\n").strip(),
        to=request.POST.get("to", "").replace("\0", "").strip(),
        undo_seconds=None,
    )
    try:
        outcomes = many.apply_to_all(
            chosen=[_chosen(text) for text in request.POST.getlist("hold")],
            request=wanted,
            user=person(request),
            confirmed_at=step_up.confirmed_at(request),
        )
    except ReviewInvalid as invalid:
        context = {"errors": invalid.errors, "url": reverse("reviews:queue")}
        return fragment(request, "reviews/queue/_bulk_result.html", context, status=422)
    context = bulk_context(person(request), wanted.action, outcomes)
    return fragment(request, "reviews/queue/_bulk_result.html", context)


def _chosen(text: str) -> many.Chosen:
    """`12-1@7` as a hold and a version; what is no number is a version nobody has seen."""
    hold_id, _, version = text.replace("\0", "").rpartition("@")
    known = parse_natural_number(version)
    return many.Chosen(hold_id, -1 if known is None else known)


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Keep the queue as it is shown (`query`) under `name`; 303 back to it."""
    query = saved_views.canonical_query(request.POST.get("query", ""))
    back = f"{reverse('reviews:queue')}?{query}" if query else reverse("reviews:queue")
    try:
        view = saved_views.save_view(
            user=person(request),
            name=request.POST.get("name", ""),
            query=query,
            shared=request.POST.get("shared") == "yes",
        )
    except ReviewInvalid as invalid:
        messages.error(
            request,
            _("The view was not saved: its name %(fault)s.") % {"fault": invalid.errors[0].message},
        )
    else:
        messages.success(request, _("Saved as “%(name)s”.") % {"name": view.name})
    return SeeOther(back)


@login_required
@require_POST
def remove(request: HttpRequest, view_id: int) -> HttpResponse:
    """Forget a view of one's own; the queue stays as it shows."""
    try:
        view = saved_views.remove_view(user=person(request), view_id=view_id)
    except saved_views.ViewNotFound:
        raise Http404 from None
    messages.success(request, _("“%(name)s” is no longer among the views.") % {"name": view.name})
    return SeeOther(f"{reverse('reviews:queue')}?{view.query}")
