"""The page on which a person sets a new password, with a link that staff sent from the admin."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse_lazy


class NewPasswordView(PasswordResetConfirmView):
    """Django's view, where people sign in with passwords."""

    template_name = "registration/new_password.html"
    success_url = reverse_lazy("home")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.PASSWORD_LOGIN:
            raise Http404
        return super().dispatch(request, *args, **kwargs)
