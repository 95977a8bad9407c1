"""OAuth clients in the admin; codes and tokens have no pages, see API tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from oauth2_provider.models import Application

from .client_events import record_deleted, record_registered
from .clients import is_safe_redirect

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    Base = admin.ModelAdmin[Application]
    ClientFormBase = forms.ModelForm[Application]
else:
    Base = admin.ModelAdmin
    ClientFormBase = forms.ModelForm


class ClientForm(ClientFormBase):
    """A public client: it proves itself with PKCE and has no secret."""

    class Meta:
        model = Application
        fields = ("name", "redirect_uris")
        help_texts = {"redirect_uris": _("One address a line: https, or http on localhost.")}

    def clean_redirect_uris(self) -> str:
        uris = str(self.cleaned_data["redirect_uris"]).split()
        unsafe = next((each for each in uris if not is_safe_redirect(each)), None)
        if unsafe is not None:
            raise forms.ValidationError(
                _("%(uri)s is neither https nor http on localhost."), params={"uri": unsafe}
            )
        return " ".join(uris)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "name" in self.fields:  # people who only view get no fields
            self.fields["name"].required = True
        if self.instance.pk is None:
            self.instance.client_type = Application.CLIENT_PUBLIC
            self.instance.authorization_grant_type = Application.GRANT_AUTHORIZATION_CODE


class ClientAdmin(Base):
    """Clients that admins or the clients themselves registered."""

    empty_text = gettext_lazy(
        "An OAuth client connects to MCP and REST for the people who consent: clients "
        "register themselves, or add one."
    )
    form = ClientForm
    view_on_site = False
    fields = ("name", "redirect_uris", "client_id", "registration_source", "created")
    readonly_fields = ("client_id", "registration_source", "created")
    list_display = ("__str__", "client_id", "registration_source", "created")
    list_filter = ("registration_source",)
    search_fields = ("name", "client_id")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            record_registered(obj, by=cast("User", request.user))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)
        record_deleted(obj, by=cast("User", request.user))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for client in queryset:
            self.delete_model(request, client)


class NoPages(Base):
    """Codes and tokens are in no list; API tokens show what a client has."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Only together with their client.
        return request.user.has_perm("oauth2_provider.delete_application")
