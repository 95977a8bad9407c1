"""Subscribe and unsubscribe the browser that shows the notification settings."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from reviews.components.views import SeeOther, current_user
from reviews.decisions.edits import ReviewInvalid

from .services import subscribe, unsubscribe


@login_required
@require_POST
def subscribe_browser(request: HttpRequest) -> HttpResponse:
    """Store the subscription in `address`, `p256dh` and `auth`; a script posts it."""
    fields = {name: request.POST.get(name, "") for name in ("address", "p256dh", "auth", "label")}
    try:
        subscribe(user=current_user(request), **fields)
    except ReviewInvalid as invalid:
        errors = [{"path": each.path, "message": each.message} for each in invalid.errors]
        return JsonResponse({"errors": errors}, status=422)
    messages.success(request, _("This browser shows notifications now."))
    return JsonResponse({})


@login_required
@require_POST
def unsubscribe_browser(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Send nothing more to one of the user's browsers."""
    if not unsubscribe(user=current_user(request), subscription_id=subscription_id):
        raise Http404
    messages.success(request, _("The browser shows no more notifications."))
    return SeeOther(reverse("reviews:notice_preferences"))
