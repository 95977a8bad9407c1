"""The consent page, where a person gives a client an access token."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.forms import AllowForm
from oauth2_provider.models import get_application_model
from oauth2_provider.views import (
    AuthorizationView,
    DynamicClientRegistrationManagementView,
    DynamicClientRegistrationView,
    OAuthProtectedResourceMetadataView,
    TokenView,
)
from oauthlib.oauth2.rfc6749.errors import CustomOAuth2Error

from workflows.conf import site_url

from .client_events import record_deleted, record_registered
from .clients import unsafe_redirect
from .options import SCOPES

#: Scopes that a person has to tick.
_NOT_TICKED = frozenset({"decide"})


class ConsentForm(AllowForm):  # type: ignore[misc]
    """The scopes that the client asks for, to choose from."""

    scope = forms.MultipleChoiceField(
        choices=tuple(SCOPES.items()), required=False, widget=forms.CheckboxSelectMultiple
    )

    def clean_scope(self) -> str:
        return " ".join(self.cleaned_data["scope"])

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("allow") and not cleaned.get("scope"):
            self.add_error("scope", _("Choose at least one, or cancel."))
        return cleaned


class ConsentView(AuthorizationView):  # type: ignore[misc]
    """django-oauth-toolkit's view with a choice of scopes."""

    template_name = "registration/oauth_consent.html"
    form_class = ConsentForm

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the page, unless the token is meant for another server (RFC 8707).

        With `approval_prompt=auto` the toolkit would skip the page while an access token with the
        scopes has not expired, even if it was revoked or was meant for one gate.
        """
        query = request.GET.copy()
        query["approval_prompt"] = "force"
        request.GET = QueryDict(query.urlencode())
        here = site_url().rstrip("/")
        other = [
            each
            for each in request.GET.getlist("resource")
            if each.rstrip("/") != here and not each.startswith(f"{here}/")
        ]
        if other:
            description = _("The client asks for a token for %(other)s, which is not this server.")
            error = CustomOAuth2Error("invalid_target", description % {"other": other[0]})
            return render(request, self.template_name, {"error": error}, status=400)
        response: HttpResponse = super().get(request, *args, **kwargs)
        return response

    def get_initial(self) -> dict[str, Any]:
        asked = self.oauth2_data.get("scopes", [])
        return {
            **super().get_initial(),
            "scope": [each for each in asked if each not in _NOT_TICKED],
        }

    def get_form(self, form_class: Any = None) -> ConsentForm:
        form: ConsentForm = super().get_form(form_class)
        asked = self.oauth2_data.get("scopes") or self._asked()
        if asked:
            form.fields["scope"].choices = [(each, SCOPES[each]) for each in asked]
        return form

    def _asked(self) -> list[str]:
        """Return the scopes in the address: the form is sent to the address of the page."""
        return [each for each in self.request.GET.get("scope", "").split() if each in SCOPES]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        target = context["form"]["redirect_uri"].value() or ""
        if "application" not in context:
            # The form is shown again, with what is wrong.
            client_id = context["form"]["client_id"].value()
            clients = get_application_model().objects
            context["application"] = clients.filter(client_id=client_id).first()
        return {**context, "target": urlsplit(target).netloc}

    def redirect(self, redirect_to: str, application: Any) -> HttpResponse:
        """Redirect to the client.

        After the form a page does it: the Content-Security-Policy forbids a form that ends on
        another site.
        """
        response: HttpResponse = super().redirect(redirect_to, application)
        if self.request.method != "POST":
            return response
        name = application.name if application else ""
        context = {
            "address": response["Location"],
            "provider": name or urlsplit(redirect_to).netloc,
        }
        return render(self.request, "registration/oidc_away.html", context)


class JsonTokenView(TokenView):  # type: ignore[misc]
    """django-oauth-toolkit's view; also errors of storing a token are JSON (RFC 6749, 5.2)."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post(request, *args, **kwargs)
        response["Content-Type"] = "application/json"
        response["Cache-Control"] = "no-store"
        return response


# Programs register without a session. A `dispatch` of its own has no exemption of the base class.
@method_decorator(csrf_exempt, name="dispatch")
class _SafeRedirects:
    """Refuses client metadata with a redirect URI that a code may not be sent to."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        uri = unsafe_redirect(request.body) if request.method in ("POST", "PUT") else None
        if uri is not None:
            description = f"redirect_uris: {uri!r} is neither https nor http on localhost"
            body = {"error": "invalid_redirect_uri", "error_description": description}
            return JsonResponse(body, status=400)
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        return response


class RegistrationView(_SafeRedirects, DynamicClientRegistrationView):  # type: ignore[misc]
    """django-oauth-toolkit's view of RFC 7591, with safe redirect URIs only."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post(request, *args, **kwargs)
        if response.status_code == HTTPStatus.CREATED:
            client_id = json.loads(response.content)["client_id"]
            record_registered(get_application_model().objects.get(client_id=client_id))
        return response


class RegisteredClientView(_SafeRedirects, DynamicClientRegistrationManagementView):  # type: ignore[misc]
    """django-oauth-toolkit's view of RFC 7592, with safe redirect URIs only."""

    def delete(
        self, request: HttpRequest, client_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        client = get_application_model().objects.filter(client_id=client_id).first()
        response: HttpResponse = super().delete(request, client_id, *args, **kwargs)
        if client is not None and response.status_code == HTTPStatus.NO_CONTENT:
            record_deleted(client)
        return response


class ResourceMetadataView(OAuthProtectedResourceMetadataView):  # type: ignore[misc]
    """django-oauth-toolkit's view with the scopes that the resource has a use for.

    Clients ask for all of them, so only MCP gates name the scope `gate`, and no other.
    """

    def get_scopes_supported(self) -> list[str]:
        is_gate = self.kwargs.get("resource_path", "").startswith("mcp/gate/")
        return [each for each in super().get_scopes_supported() if (each == "gate") is is_gate]
