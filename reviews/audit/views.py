"""What was decided: the list, and one record."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from reviews.audit.history import records
from reviews.audit.history_page import history_context, record_context
from reviews.components.views import good_cursor, page, person


@login_required
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """Decisions, newest first; the filters stand in the address."""
    with good_cursor():
        context = history_context(person(request), request.GET)
    return page(request, "reviews/audit/history.html", context, section="history")


@login_required
@require_safe
def record(request: HttpRequest, record_id: int) -> HttpResponse:
    """One decision: what was shown, what was made of it, what then ran."""
    rows = records(person(request)).select_related("execution", "hold")
    found = rows.filter(pk=record_id).first()
    if found is None:
        raise Http404
    context = {"record": record_context(person(request), found)}
    return page(request, "reviews/audit/record.html", context, section="history")
