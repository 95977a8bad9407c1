"""The sign-in page: a password, a provider of OpenID Connect, or both."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed


class SignInView(LoginView):
    """Django's login view, aware of the enabled sign-in methods."""

    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Sign in with a password, if passwords are enabled."""
        if not settings.PASSWORD_LOGIN:
            return HttpResponseNotAllowed(["GET"])
        return super().post(request, *args, **kwargs)

    def get_template_names(self) -> list[str]:
        """Choose the page with or without a password form."""
        name = "login" if settings.PASSWORD_LOGIN else "login_oidc"
        return [f"registration/{name}.html"]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Add `passwords`, `oidc_name` ("" without a provider) and whether a session has ended."""
        oidc = settings.OIDC
        context = {
            "passwords": settings.PASSWORD_LOGIN,
            "oidc_name": oidc.name if oidc else "",
            "ended": "ended" in self.request.GET,
        }
        return super().get_context_data(**kwargs, **context)
