"""The endpoint for Slack's requests, and linking of accounts in the notification settings."""

from __future__ import annotations

import logging
import time
from typing import Any

from django.contrib import messages as page_messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST
from django.views.generic import View

from reviews.components.views import SeeOther, current_user, page
from reviews.models import SlackWorkspace
from reviews.notifications.pages import preferences_context
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.engine.values.bounded_json import BoundedJSONError, parse

from . import accounts, interactions, signatures
from .deciding import BadPayload
from .slack_api import SlackError

logger = logging.getLogger(__name__)


@method_decorator(csrf_exempt, name="dispatch")  # Slack's signature takes its place
class SlackView(View):
    """Presses, submitted dialogs and the command `/holdpoint` of one workspace."""

    http_method_names = ["post"]

    @sensitive_variables("secret")
    def post(self, request: HttpRequest, workspace_id: int) -> HttpResponse:
        workspace = SlackWorkspace.objects.filter(pk=workspace_id, enabled=True).first()
        if workspace is None:
            raise Http404
        try:
            secret = decrypt(workspace.signing_secret)
        except DecryptionFailed as error:
            logger.warning("Slack workspace %s: %s", workspace_id, error)
            return JsonResponse({"error": "not available"}, status=503)
        timestamp = request.headers.get("X-Slack-Request-Timestamp", "")
        signature = request.headers.get("X-Slack-Signature", "")
        if not signatures.is_valid(secret, timestamp, signature, request.body, now=time.time()):
            return JsonResponse({"error": "the signature is not valid"}, status=401)
        try:
            return self._answer(request, workspace)
        except BadPayload:
            return JsonResponse({"error": "the payload is not supported"}, status=400)
        except SlackError as error:
            # Slack shows that the press failed: a dialog cannot be opened in another way.
            logger.warning("Slack workspace %s: %s", workspace_id, error)
            return JsonResponse({"error": "Slack's API did not answer"}, status=502)

    def _answer(self, request: HttpRequest, workspace: SlackWorkspace) -> HttpResponse:
        if "command" in request.POST:
            if request.POST.get("team_id") != workspace.team_id:
                raise BadPayload
            text = interactions.link_command(
                workspace, request.POST.get("user_id", ""), request.POST.get("text", "")
            )
            return JsonResponse({"response_type": "ephemeral", "text": text})
        answer = interactions.handle(workspace, _payload(request))
        return JsonResponse(answer) if answer else HttpResponse()


def _payload(request: HttpRequest) -> dict[str, Any]:
    try:
        payload = parse(request.POST.get("payload", ""))
    except BoundedJSONError:
        raise BadPayload from None
    if not isinstance(payload, dict):
        raise BadPayload
    return payload


@login_required
@require_POST
@sensitive_variables("code")
def create_link_code(request: HttpRequest) -> HttpResponse:
    """Show a new code once, on the page of the notification settings."""
    if not accounts.has_workspaces():
        raise Http404
    user = current_user(request)
    code = accounts.create_code(user)
    context = {**preferences_context(user), "link_code": code}
    return page(request, "reviews/notifications/preferences.html", context, section="notices")


@login_required
@require_POST
def unlink(request: HttpRequest, account_id: int) -> HttpResponse:
    """Remove one of the user's own linked Slack accounts."""
    if not accounts.unlink(current_user(request), account_id):
        raise Http404
    page_messages.success(request, _("The account is no longer linked."))
    return SeeOther(reverse("reviews:notice_preferences"))
