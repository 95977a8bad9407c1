"""Security events in the admin, read-only."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from workflows.models import SecurityEvent

from .filters import TimeFilter
from .read_only import block


@admin.register(SecurityEvent)
class SecurityEventAdmin(admin.ModelAdmin[SecurityEvent]):
    """Nobody writes events here."""

    empty_text = gettext_lazy(
        "A security event is a sign-in, a denial or a change of rights: it appears here "
        "when one happens."
    )
    list_display = ("at", "kind", "actor", "subject", "address")
    list_filter = ("kind", ("at", TimeFilter))
    search_fields = ("actor", "subject", "address")
    fields = ("at", "kind", "actor", "actor_id", "subject", "address", "all_details")
    readonly_fields = ("all_details",)
    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: SecurityEvent | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: SecurityEvent | None = None) -> bool:
        return False

    @admin.display(description=gettext_lazy("details"))
    def all_details(self, event: SecurityEvent) -> SafeString:
        return block(event.details)
