"""How reviewing goes."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from reviews.components.views import current_user, page
from reviews.insights.pages import insights_context


@login_required
@require_safe
def insights(request: HttpRequest) -> HttpResponse:
    """Figures, charts and tables over `?days=` of `?workflow=`."""
    query = {name: str(value) for name, value in request.GET.items()}
    context = insights_context(current_user(request), query)
    return page(request, "reviews/insights/insights.html", context, section="insights")
