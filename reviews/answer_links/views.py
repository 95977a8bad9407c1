"""The pages of an answer link: the one that it opens, and the review, which is posted to."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView, View

from reviews.components.reasons import render_reason
from reviews.components.value_view import value_view
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid, payload_schema, shown_payload
from reviews.decisions.pages import decision_context
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import HoldNotFound, reason_required

from . import services
from .services import AnswerLink, LinkInvalid, SignInNeeded, TooManyRequests


@method_decorator(never_cache, name="dispatch")
class AnswerLinkView(TemplateView):
    """The page that a link opens: a script posts the token, which only the browser knows."""

    template_name = "reviews/answer_links/open.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        # Cards in chats have a link for each decision.
        chosen = self.request.GET.get("decision", "")
        return {**super().get_context_data(**kwargs), "chosen": chosen}


@method_decorator(never_cache, name="dispatch")
class AnswerView(View):
    """One review for the person of the link, even if another person is signed in."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Show the review, or decide it; the comment of a refused decision is shown again."""
        token = request.POST.get("token", "").strip()
        try:
            if "decision" in request.POST:
                return _decide(request, token)
            return _show(request, services.read_link(token))
        except (LinkInvalid, HoldNotFound):
            return render(request, "reviews/answer_links/invalid.html", status=410)


def _decide(request: HttpRequest, token: str) -> HttpResponse:
    link = services.read_link(token)
    try:
        services.decide_by_link(link, decision=request.POST["decision"], comment=_comment(request))
    except TooManyRequests as refused:
        response = _show(request, link, error=str(refused), status=429)
        response["Retry-After"] = str(refused.seconds)
        return response
    except SignInNeeded:
        return _show(request, link, status=403)
    except ReviewInvalid as invalid:
        error = " ".join(each.message for each in invalid.errors)
        return _show(request, link, error=error, status=422)
    except NotAllowed as denied:
        return _show(request, link, error=render_reason(denied.reason), status=403)
    except Conflict as late:
        error = render_reason(late.reason)
        return _show(request, services.read_link(token), error=error, status=409)
    return _show(request, services.read_link(token))


def _comment(request: HttpRequest) -> str:
    return request.POST.get("comment", "").replace("\r\n", "\n").strip()


def _show(
    request: HttpRequest, link: AnswerLink, *, error: str = "", status: int = 200
) -> HttpResponse:
    hold = link.hold
    d = decision_context(link.user, hold)
    context: dict[str, Any] = {
        "d": d,
        "person": link.user,
        "review_url": reverse("reviews:decision", args=(hold.execution_id, hold.pk)),
        "token": request.POST.get("token", ""),
        "comment": _comment(request),
        "error": error,
        "missing": max(0, d["quorum_needed"] - len(d["approvals"])),
        "is_used": link.is_used,
        "is_changed": link.is_changed,
        "chosen": request.POST.get("chosen", ""),
    }
    if link.is_current and services.takes_links(hold):
        schema = payload_schema(hold)
        context["view"] = value_view(shown_payload(hold, schema).value, schema)
        context["reason_required"] = reason_required(hold, services.SOURCE)
    elif link.is_current:
        context["error"] = error or _("This review needs a sign-in.")
    return render(request, "reviews/answer_links/answer.html", context, status=status)
