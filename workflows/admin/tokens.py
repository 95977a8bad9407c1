"""Read-only admin of API tokens: people manage their own on the desk."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from workflows.models import ApiToken

from .filters import StatusFilter


class TokenStatusFilter(StatusFilter):
    """Whether programs can use the token."""

    choices_by_key = {
        "active": (
            gettext_lazy("Active"),
            Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now())),
        ),
        "expired": (gettext_lazy("Expired"), Q(revoked_at=None, expires_at__lte=Now())),
        "revoked": (gettext_lazy("Revoked"), Q(revoked_at__isnull=False)),
    }


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin[ApiToken]):
    """API tokens. Their secrets are not stored."""

    empty_text = gettext_lazy(
        "An API token lets a program act for a person: each person creates tokens on the "
        "page API tokens of the desk."
    )
    list_display = (
        "prefix", "user", "name", "scope_list", "created_at", "expires_at", "revoked_at",
        "last_used_at",
    )  # fmt: skip
    list_filter = (TokenStatusFilter,)
    list_select_related = ("user",)
    search_fields = ("prefix", "name", "user__username")
    fields = list_display
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    @admin.display(description="scopes")
    def scope_list(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)
