"""API tokens: who has which, and switching them off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from workflows.models import ApiToken
from workflows.permissions.tokens import revoke

if TYPE_CHECKING:
    Base = admin.ModelAdmin[ApiToken]
else:
    Base = admin.ModelAdmin


@admin.register(ApiToken)
class ApiTokenAdmin(Base):
    """Tokens without their secret, which nobody has."""

    list_display = (
        "prefix", "user", "name", "scope_words", "created_at", "expires_at", "revoked_at",
        "last_used_at",
    )  # fmt: skip
    list_filter = ("revoked_at", "expires_at")
    list_select_related = ("user",)
    search_fields = ("prefix", "name", "user__username")
    fields = list_display
    actions = ("revoke_tokens",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Asked by the action: whoever might change tokens may switch them off."""
        return super().has_change_permission(request)

    @admin.display(description="scopes")
    def scope_words(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    @admin.action(description="Revoke the chosen tokens", permissions=["revoke"])
    def revoke_tokens(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """From now on these tokens open nothing."""
        count = revoke(tokens=queryset)
        self.message_user(request, f"{count} tokens revoked.")
