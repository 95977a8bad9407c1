"""The sign-in page: a password, a provider of OpenID Connect, or both."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed


class SignInView(LoginView):
    """Django's, which knows what there is to sign in with."""

    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """A password, where passwords are allowed."""
        if not settings.PASSWORD_LOGIN:
            return HttpResponseNotAllowed(["GET"])
        return super().post(request, *args, **kwargs)

    def get_template_names(self) -> list[str]:
        """Without passwords there is nothing to fill in."""
        name = "login" if settings.PASSWORD_LOGIN else "login_oidc"
        return [f"registration/{name}.html"]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """`oidc_name`: what the provider is called, "" when there is none."""
        oidc = settings.OIDC
        about = {"passwords": settings.PASSWORD_LOGIN, "oidc_name": oidc.name if oidc else ""}
        return super().get_context_data(**kwargs, **about)
