"""The search page."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from reviews.components.views import current_user, page, search_text
from reviews.search.selectors import search


@login_required
@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Show what matches `q`, in groups."""
    q = search_text(request, "q")
    context = {"q": q, "groups": search(current_user(request), q) if q else ()}
    return page(request, "reviews/search/search.html", context, section="search")
