"""Pages of notifications: the bell, the list, marking as read, settings."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from reviews.components.views import SeeOther, current_user, cursor_or_404, fragment, is_htmx, page
from reviews.notifications import inbox
from reviews.notifications.pages import bell_context, notices_context, preferences_context
from reviews.notifications.preferences import save_preferences
from workflows.common.number_parsing import parse_natural_number

_MAX_MARKED = 200


@login_required
@require_safe
def notices(request: HttpRequest) -> HttpResponse:
    """All notices, or the unread ones."""
    show, cursor = request.GET.get("show", ""), request.GET.get("cursor", "")
    with cursor_or_404():
        context = notices_context(current_user(request), show=show, cursor=cursor)
    return page(request, "reviews/notifications/notifications.html", context, section="notices")


@login_required
@require_safe
def bell(request: HttpRequest) -> HttpResponse:
    """The newest notices, for the bell."""
    return fragment(
        request, "reviews/notifications/_bell_list.html", bell_context(current_user(request))
    )


@login_required
@require_POST
def read_notices(request: HttpRequest) -> HttpResponse:
    """Mark the notices in `notice`, or all of them with `everything`, as read."""
    user = current_user(request)
    numbers = map(parse_natural_number, request.POST.getlist("notice")[:_MAX_MARKED])
    ids = [number for number in numbers if number is not None]
    inbox.mark_read(user, ids=ids, everything="everything" in request.POST)
    if is_htmx(request):
        return fragment(request, "reviews/notifications/_bell_list.html", bell_context(user))
    return SeeOther(reverse("reviews:notices"))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def notice_preferences(request: HttpRequest) -> HttpResponse:
    """Show the notification settings; a POST saves them."""
    user = current_user(request)
    if request.method == "POST":
        shown, mailed = request.POST.getlist("shown"), request.POST.getlist("mailed")
        # Without the column there is nothing to choose: see the template.
        messaged = request.POST.getlist("messaged") if "with_slack" in request.POST else None
        save_preferences(user=user, shown=shown, mailed=mailed, messaged=messaged)
        messages.success(request, _("Saved."))
        return SeeOther(reverse("reviews:notice_preferences"))
    return page(
        request,
        "reviews/notifications/preferences.html",
        preferences_context(user),
        section="notices",
    )
