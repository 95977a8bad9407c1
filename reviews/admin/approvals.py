"""Admin of approvals, read-only."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from reviews.components import labels
from workflows.admin.read_only import ReadOnly, link
from workflows.common.redaction import mask_secrets
from workflows.models import Approval

from .holds import PhaseFilter


@admin.register(Approval)
class ApprovalAdmin(ReadOnly):
    """Actions that outside agents asked approval for; people decide in the reviews."""

    empty_text = gettext_lazy(
        "An approval is an action that an outside agent asked people about: connect an "
        "agent, and its requests appear here."
    )
    list_display = (
        "action", "title", "agent", "session", "owner", "risk", "shown_phase",
        "created_at",
    )  # fmt: skip
    list_filter = (PhaseFilter, "risk", "result_mismatch")
    list_select_related = ("owner",)
    search_fields = ("action", "title", "agent", "session")
    fields = (
        "action", "title", "run", "shown_phase", "risk", "policy", "owner", "agent", "session",
        "shown_url", "context", "shown_callback", "arguments_digest", "result_ok",
        "result_error", "result_mismatch", "result_at", "created_at",
    )  # fmt: skip

    @admin.display(description="run")
    def run(self, row: Approval) -> SafeString | str:
        return link(str(row.execution_id), "reviews:run", row.execution_id)

    @admin.display(description=gettext_lazy("when"), ordering="phase")
    def shown_phase(self, row: Approval) -> str:
        return labels.phase_text(row.phase)

    @admin.display(description="URL")
    def shown_url(self, row: Approval) -> str:
        """The address; that of a question is stored as people have to open it."""
        return mask_secrets(row.url)

    @admin.display(description=gettext_lazy("callback URL"))
    def shown_callback(self, row: Approval) -> str:
        """The address of a webhook endpoint, whose path may be a secret."""
        return mask_secrets(row.callback_url)
