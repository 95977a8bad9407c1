"""The endpoint for the requests of Teams."""

from __future__ import annotations

import logging
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View

from reviews.chat.deciding import BadPayload
from reviews.models import TeamsBot
from workflows.engine.bounded_json import BoundedJSONError, parse

from . import interactions, tokens
from .connector import TeamsError

logger = logging.getLogger(__name__)


@method_decorator(csrf_exempt, name="dispatch")  # the connector's token takes its place
class TeamsView(View):
    """Pressed buttons and messages to one bot."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, bot_id: int) -> HttpResponse:
        bot = TeamsBot.objects.filter(pk=bot_id, enabled=True).first()
        if bot is None:
            raise Http404
        try:
            activity = _activity(request)
            authorization = request.headers.get("Authorization", "")
            tokens.verify(authorization, app_id=bot.app_id, activity=activity)
            answer = interactions.handle(bot, activity)
        except tokens.NotAuthentic as error:
            logger.warning("Teams bot %s: a request was refused: %s", bot_id, error)
            return JsonResponse({"error": "the token is not valid"}, status=403)
        except BadPayload:
            return JsonResponse({"error": "the activity is not supported"}, status=400)
        except TeamsError as error:
            logger.warning("Teams bot %s: the keys cannot be read: %s", bot_id, error)
            return JsonResponse({"error": "not available"}, status=503)
        return JsonResponse(answer) if answer is not None else HttpResponse()


def _activity(request: HttpRequest) -> dict[str, Any]:
    try:
        activity = parse(request.body)
    except BoundedJSONError:
        raise BadPayload from None
    if not isinstance(activity, dict):
        raise BadPayload
    return activity
