"""More time for a review."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.generic import View

from reviews.components.views import SeeOther, fragment, hold_or_404, is_htmx, person
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.queue.deadline_panel import deadline_context
from reviews.queue.extensions import extend
from workflows.common.number_parsing import parse_natural_number
from workflows.models import Hold


class ExtendView(LoginRequiredMixin, View):
    """The deadline, shown by GET and moved by POST."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
        """The sentence about the deadline, as the page shows it."""
        return self._show(request, hold_or_404(request, execution_id, hold_id))

    def post(self, request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
        """303 to the review; htmx gets the sentence with the new deadline."""
        hold = hold_or_404(request, execution_id, hold_id)
        error, status = "", 200
        try:
            extend(
                hold_id=hold.id,
                user=person(request),
                seconds=_seconds(request.POST.get("seconds", "")),
                source="web",
            )
        except NotAllowed as denied:
            error, status = denied.message, 403
        except Conflict as late:
            error, status = late.message, 409
        except ReviewInvalid as invalid:
            fault = invalid.errors[0].message
            error, status = _("The time %(fault)s.") % {"fault": fault}, 422
        if is_htmx(request):
            now = hold_or_404(request, execution_id, hold_id)
            return self._show(request, now, error=error, status=status)
        if status == 403:
            raise PermissionDenied(error)
        if error:
            messages.error(request, error)
        return SeeOther(reverse("reviews:decision", args=(execution_id, hold_id)))

    def _show(
        self, request: HttpRequest, hold: Hold, *, error: str = "", status: int = 200
    ) -> HttpResponse:
        context = {"d": deadline_context(person(request), hold, error=error)}
        answer = fragment(request, "reviews/queue/_deadline.html", context, status=status)
        if request.method == "POST":
            # The run has a new version; the form beside follows it.
            answer["HX-Trigger"] = "holdpoint:news"
        return answer


def _seconds(text: str) -> float:
    """The posted number; 0, which is out of bounds, for anything else."""
    return float(parse_natural_number(text, digits=9) or 0)
