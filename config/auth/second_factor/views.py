"""The page that a review links to when an approval needs a code."""

from __future__ import annotations

from urllib.parse import urlencode

from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from workflows import conf
from workflows.permissions import step_up


@never_cache
@login_required
@require_safe
def confirmed(request: HttpRequest) -> HttpResponse:
    """Ask for a code; afterwards say how long it counts, and to go back to the review."""
    if not step_up.is_recent(step_up.confirmed_at(request)):
        # Somebody without a second factor is shown how to set one up.
        enrolled = is_mfa_enabled(request.user)
        if not enrolled:
            return redirect("mfa_index")
        then = urlencode({"next": request.path})
        return redirect(f"{reverse('mfa_reauthenticate')}?{then}")
    about = {"minutes": max(1, conf.step_up_seconds() // 60)}
    return render(request, "mfa/confirmed.html", about)
