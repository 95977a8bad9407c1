"""Admin of second factors: people set up their own, staff remove one that was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.http import HttpRequest

from reviews.people import rights

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    Base = admin.ModelAdmin[Authenticator]
else:
    Base = admin.ModelAdmin

for model in (Authenticator, EmailAddress):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(Authenticator)
class SecondFactorAdmin(Base):
    """Second factors, without their secrets."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_filter = ("type", "created_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("user__username",)
    fields = list_display

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Authenticator | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Authenticator | None = None) -> bool:
        """Who removes a second factor can then sign in with the password only."""
        allowed = super().has_delete_permission(request, obj)
        if not allowed or obj is None:
            return allowed
        return rights.may_take_over(cast("User", request.user), obj.user)
