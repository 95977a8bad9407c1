"""Masked values: showing one, and what was shown."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from reviews.audit.list_page import TEMPLATE
from reviews.audit.reveals import NothingMasked, reveal
from reviews.components.views import fragment, good_cursor, is_htmx, page, person
from reviews.decisions.masked_values import revealed_context, reveals_context
from reviews.decisions.rights import NotAllowed
from workflows.common.number_parsing import parse_natural_number


@login_required
@require_POST
def show(request: HttpRequest) -> HttpResponse:
    """The value behind one mark: in place of its button, or as a page without scripts."""
    number = parse_natural_number(request.POST.get("number", ""))
    if number is None:
        raise Http404
    context: dict[str, Any]
    try:
        secret = reveal(
            place=request.POST.get("place", ""),
            number=number,
            user=person(request),
            source="web",
        )
    except NothingMasked:
        raise Http404 from None
    except NotAllowed as refused:
        context = {"revealed": None, "refused": _(refused.message)}
        return _answer(request, context, status=403)
    return _answer(request, {"revealed": revealed_context(secret), "refused": ""}, status=200)


def _answer(request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
    if is_htmx(request):
        return fragment(request, "reviews/components/_revealed.html", context, status=status)
    return page(request, "reviews/audit/revealed.html", context, section="review", status=status)


@login_required
@require_safe
def reveals(request: HttpRequest) -> HttpResponse:
    """Who had which masked value shown."""
    with good_cursor():
        context = reveals_context(person(request), cursor=request.GET.get("cursor", ""))
    return page(request, TEMPLATE, context, section="history")
