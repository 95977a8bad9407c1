"""The page of an answer link: GET shows the review, POST decides it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.generic import View

from reviews.components.reasons import render_reason
from reviews.components.value_view import value_view
from reviews.components.views import SeeOther
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid, payload_schema, shown_payload
from reviews.decisions.pages import decision_context
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import HoldNotFound, reason_required

from . import services
from .services import AnswerLink, LinkInvalid, SignInNeeded, TooManyRequests


@method_decorator(never_cache, name="dispatch")
class AnswerView(View):
    """One review for the person of the link, even if another person is signed in."""

    http_method_names = ["get", "head", "post"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Keep the token out of the addresses that the browser sends as the referrer."""
        response = super().dispatch(request, *args, **kwargs)
        response["Referrer-Policy"] = "strict-origin"
        return response

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        try:
            link = services.read_link(token)
        except LinkInvalid:
            return _invalid(request)
        return _show(request, link)

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        """Decide and redirect; otherwise show the page again with the entered comment."""
        comment = request.POST.get("comment", "").replace("\r\n", "\n").strip()
        try:
            link = services.read_link(token)
            services.decide_by_link(
                link, decision=request.POST.get("decision", ""), comment=comment
            )
        except (LinkInvalid, HoldNotFound):
            return _invalid(request)
        except TooManyRequests as refused:
            response = _show(request, link, comment=comment, error=str(refused), status=429)
            response["Retry-After"] = str(refused.seconds)
            return response
        except SignInNeeded:
            return _show(request, link, status=403)
        except ReviewInvalid as invalid:
            error = " ".join(each.message for each in invalid.errors)
            return _show(request, link, comment=comment, error=error, status=422)
        except NotAllowed as denied:
            error = render_reason(denied.reason)
            return _show(request, link, comment=comment, error=error, status=403)
        except Conflict as late:
            error = render_reason(late.reason)
            return _show(request, services.read_link(token), error=error, status=409)
        return SeeOther(request.path)


def _invalid(request: HttpRequest) -> HttpResponse:
    return render(request, "reviews/answer_links/invalid.html", status=410)


def _show(
    request: HttpRequest, link: AnswerLink, *, comment: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    hold = link.hold
    context: dict[str, Any] = {
        "d": decision_context(link.user, hold),
        "person": link.user,
        "review_url": reverse("reviews:decision", args=(hold.execution_id, hold.pk)),
        "comment": comment,
        "error": error,
        "moved_on": not link.is_current,
        # Cards in chats have a link for each; the page decides nothing until its button is pressed.
        "chosen": request.GET.get("decision", ""),
    }
    if link.is_current and services.takes_links(hold):
        schema = payload_schema(hold)
        context["view"] = value_view(shown_payload(hold, schema).value, schema)
        context["reason_required"] = reason_required(hold, services.SOURCE)
    elif link.is_current:
        context["error"] = error or _("This review needs a sign-in.")
    return render(request, "reviews/answer_links/answer.html", context, status=status)
