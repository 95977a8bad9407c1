"""Views of a sign-in: the redirect to the issuer and the callback."""

from __future__ import annotations

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from config.auth.sign_in_limits import is_locked, locked_page

from .conf import options
from .options import PROVIDER
from .provider import Issuer
from .refusals import Refused, page


@never_cache
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Start a sign-in.

    Returns a page that redirects by itself: the Content-Security-Policy allows forms to lead only
    to this site, redirects included.
    """
    if is_locked(request):
        return locked_page(request)
    next_url = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(next_url, {request.get_host()}, request.is_secure())
    provider = get_adapter(request).get_provider(request, PROVIDER)
    try:
        redirect = provider.redirect(request, AuthProcess.LOGIN, next_url if safe else None)
    except Refused as refused:
        return page(request, refused.code, str(refused))
    except (OAuth2Error, RequestException) as error:
        return page(request, "provider", str(error))
    context = {"address": redirect["Location"], "provider": options().name}
    return render(request, "registration/oidc_away.html", context)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Handle the issuer's redirect with a code or an error."""
    if is_locked(request):
        return locked_page(request)
    view = OAuth2CallbackView.adapter_view(Issuer(request, options().provider_id))
    response: HttpResponse
    try:
        response = view(request)
    except ImmediateHttpResponse as refused:
        response = refused.response
    return response
