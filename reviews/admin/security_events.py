"""Security events and their destinations in the admin, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from reviews.models import SecurityEvent, SecurityExport
from reviews.security_events import exports
from reviews.security_events.destinations import configured
from reviews.security_events.ocsf import fields
from workflows.admin.read_only import block

from .read_only import ReadOnly

if TYPE_CHECKING:
    EventBase = admin.ModelAdmin[SecurityEvent]
    ExportBase = admin.ModelAdmin[SecurityExport]
else:
    EventBase = ExportBase = admin.ModelAdmin


@admin.register(SecurityEvent)
class SecurityEventAdmin(ReadOnly, EventBase):
    """Security events, as the destinations get them."""

    empty_text = gettext_lazy(
        "A security event is a sign-in, a denial or a change of rights: it appears here "
        "when one happens."
    )
    list_display = ("at", "kind", "actor", "address")
    list_filter = ("kind", "at")
    search_fields = ("actor", "address")
    fields = ("at", "kind", "actor", "address", "position", "exported")
    readonly_fields = ("exported",)
    show_full_result_count = False

    @admin.display(description=gettext_lazy("exported line"))
    def exported(self, event: SecurityEvent) -> SafeString:
        return block(fields(event))


@admin.register(SecurityExport)
class SecurityExportAdmin(ReadOnly, ExportBase):
    """The state of each destination."""

    empty_text = gettext_lazy(
        "A destination receives the security events, such as a SIEM: configure one in the "
        "settings of the installation."
    )
    list_display = ("name", "state", "waiting", "sent_at", "retry_at", "error")
    fields = ("name", "state", "waiting", "sent_at", "failures", "retry_at", "error")
    readonly_fields = ("state", "waiting")

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: SecurityExport) -> str:
        if row.name not in configured():
            return _("not configured")
        return _("failing") if row.failures else _("working")

    @admin.display(description=gettext_lazy("waiting"))
    def waiting(self, row: SecurityExport) -> str:
        """How many events wait, and for how long."""
        number, seconds = exports.waiting(row)
        if not number:
            return _("nothing")
        text = ngettext(
            "%(number)d event, %(minutes)d min", "%(number)d events, %(minutes)d min", number
        )
        return text % {"number": number, "minutes": seconds // 60}
