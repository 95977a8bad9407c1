"""Admin of the calls of MCP gates: who asked for what, what was sent, and what was answered."""

from __future__ import annotations

import json
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.decisions.masking import Masked, Rules, masked
from workflows.admin.read_only import ReadOnly, block, link
from workflows.approvals.selectors import approval_body, with_status
from workflows.common.redaction import DOTS, mask_secrets
from workflows.engine.values.bounded_json import digest
from workflows.executions.validation import installation_floor
from workflows.mcp_gate.calls import answer_of
from workflows.models import Approval, GateCall, GatePolicy
from workflows.planning.planner import known_tools

#: Shorter secrets are not looked for in the texts of an answer.
_MIN_SECRET: Final = 4


@admin.register(GateCall)
class GateCallAdmin(ReadOnly):
    """Calls through gates, with secrets masked by the schemas of the catalogue."""

    empty_text = gettext_lazy(
        "A call is what an agent asked of an MCP gate: add a gate, connect an agent, and "
        "its calls appear here."
    )
    list_display = ("tool", "gate", "user", "client", "policy", "outcome", "created_at")
    list_filter = ("gate", "policy", "outcome")
    list_select_related = ("gate", "user")
    search_fields = ("tool", "client", "uid")
    fields = (
        "tool", "gate", "user", "token", "client", "policy", "run", "questions", "uid",
        "created_at", "asked_arguments", "arguments_digest", "not_sent_at", "sent_at",
        "sent_arguments", "sent_digest", "answered_at", "outcome", "shown_answer",
        "answer_digest", "shown_error", "closed_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[GateCall]:
        """Return all calls: only roles that see every run have the permission."""
        return GateCall.objects.select_related("approval").defer("arguments", "answer")

    @admin.display(description="run")
    def run(self, row: GateCall) -> SafeString | str:
        if row.approval is None:
            return "-"
        run = row.approval.execution_id
        return link(str(run), "reviews:run", run)

    @admin.display(description="questions of the server")
    def questions(self, row: GateCall) -> SafeString | str:
        """Link the runs in which people answered the server during the call."""
        rows = Approval.objects.filter(owner=row.user_id, session=row.session).order_by("pk")
        runs = rows.values_list("execution_id", flat=True)
        links = [(link(str(run), "reviews:run", run),) for run in runs]
        return format_html_join(", ", "{}", links) if links else "-"

    @admin.display(description="arguments asked for")
    def asked_arguments(self, row: GateCall) -> SafeString | str:
        if not row.arguments:
            return _digest_only()
        return block(_arguments(row, json.loads(row.arguments)).value)

    @admin.display(description="arguments sent")
    def sent_arguments(self, row: GateCall) -> SafeString | str:
        """Return what the server got: for a held call, what people decided."""
        if not row.sent_digest:
            return "-"
        sent = _sent(row)
        return _digest_only() if sent is None else block(_arguments(row, sent).value)

    @admin.display(description="answer")
    def shown_answer(self, row: GateCall) -> SafeString | str:
        if not row.answer_digest:
            return "-"
        answer = answer_of(row, row.approval)
        return _digest_only() if answer is None else block(_shown(row, answer))

    @admin.display(description="error")
    def shown_error(self, row: GateCall) -> str:
        return mask_secrets(_without(row.error, _secrets(row)))


def _digest_only() -> str:
    return _("Only the digest is kept (HOLDPOINT_GATE_KEEP_BYTES).")


def _sent(row: GateCall) -> Any:
    """Return the arguments that the server got, or None if only their digest is kept."""
    if row.policy == GatePolicy.HOLD and row.approval_id is not None:
        approval = with_status(Approval.objects.filter(pk=row.approval_id)).get()
        decided = approval_body(approval)["arguments"]
        return decided if digest(decided) == row.sent_digest else None
    return json.loads(row.arguments) if row.arguments else None


def _rules(schema: Any) -> Rules:
    """Return the masking rules of a call, which has the installation's policy."""
    return Rules(schema, installation_floor().secrets)


def _arguments(row: GateCall, value: Any) -> Masked:
    tool = known_tools([row.tool]).get(row.tool)
    return masked(value, _rules(tool.input_schema if tool else None))


def _shown(row: GateCall, answer: dict[str, Any]) -> Any:
    """Return the answer with secrets masked, also where its texts repeat them."""
    tool = known_tools([row.tool]).get(row.tool)
    schema = {"properties": {"structuredContent": (tool and tool.output_schema) or True}}
    view = masked(answer, _rules({"type": "object", **schema}))
    return _without(view.value, _secrets(row, view))


def _secrets(row: GateCall, *views: Masked) -> list[str]:
    """Return the secrets of the views and of the arguments, as texts may repeat them.

    The longest are first: a secret may be the beginning of another.
    """
    asked = json.loads(row.arguments) if row.arguments else None
    given = [_arguments(row, each) for each in (asked, _sent(row)) if each is not None]
    texts = {str(each.value) for view in (*views, *given) for each in view.secrets}
    # A text of an answer is often JSON itself.
    texts |= {
        json.dumps(each, ensure_ascii=ascii)[1:-1] for each in texts for ascii in (True, False)
    }
    return sorted((each for each in texts if len(each) >= _MIN_SECRET), key=len, reverse=True)


def _without(value: Any, secrets: list[str]) -> Any:
    """Return the value with the secrets in its texts replaced by dots."""
    if isinstance(value, dict):
        return {key: _without(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, secrets) for item in value]
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, DOTS)
    return value
