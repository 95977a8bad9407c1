"""Contexts of the history, of one record with its digests, and of the denied attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.templatetags.static import static
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews import conf
from reviews.audit.audit_lists import AuditListText, Entry, audit_list_context
from reviews.audit.chain import record_hash
from reviews.audit.denied_attempts import denied_attempts
from reviews.audit.history import (
    executed,
    filtered,
    is_early_vote,
    is_external,
    parse_filters,
    receipts_of,
    records,
    was_withdrawn,
)
from reviews.audit.records import canonical_text
from reviews.audit.reveals import COLUMNS, may_reveal, record_place, record_views
from reviews.audit.signing import public_key
from reviews.components import labels as components_labels
from reviews.components.json_diffs import diff
from reviews.components.number_formatting import at_least, count_up_to, counted, grouped
from reviews.components.reasons import render_stored
from reviews.components.text_diffs import Segment, TextRow, text_segments
from reviews.decisions.masked_values import masks_context
from reviews.decisions.masking import Masked
from reviews.models import Decision, DeniedAttempt, HumanReviewRecord
from reviews.retention.selectors import erasure_of
from reviews.templatetags.desk import json_with_line_breaks
from workflows.common import keyset
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.values.bounded_json import digest
from workflows.models import ExecutionReceipt, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User


_KEYS = (
    "q", "execution", "node", "tool", "reason", "decision", "reviewer", "phase", "workflow",
    "edited", "bulk", "expired", "from", "to",
)  # fmt: skip
#: Filters that only links set; the form has no control for them.
_ALSO = (
    ("execution", N_("run")),
    ("node", N_("task")),
    ("tool", N_("tool")),
    ("reason", N_("reason")),
    ("expired", N_("timed out")),
)
_MAX_PEOPLE = 500
#: Matching rows are counted up to this number: a selective filter would scan the whole table.
_MAX_COUNT = 200


def history_context(user: User, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the history page; raises keyset.BadCursor."""
    values = {key: (query.get(key) or "").strip() for key in _KEYS}
    filters = parse_filters(query)
    rows = filtered(records(user), filters)
    cursor = query.get("cursor", "")
    page = keyset.page(
        rows.with_keys().select_related("withdraws"), cursor=cursor, size=conf.page_size()
    )
    active = {key: value for key, value in values.items() if value}
    count = count_up_to(rows, _MAX_COUNT)
    return {
        "filters": values,
        "selects": _selects(values),
        "also": tuple((name, _(label), values[name]) for name, label in _ALSO if values[name]),
        "exports": _exports(active, count),
        "verifier_url": static("reviews/verify_history.py"),
        "audit_key": public_key(),
        "audit_key_url": reverse("reviews:audit_key"),
        "filtered": bool(active),
        "filter_errors": tuple(f"{each.path} {each.message}" for each in filters.errors),
        "count_text": _count_text(count),
        "rows": tuple(_row(each) for each in page.rows),
        "next_url": history_url({**active, "cursor": page.next}) if page.next else "",
        "previous_url": history_url(active) if cursor else "",
    }


def history_url(query: Mapping[str, str]) -> str:
    """Return the URL of the history with a query string."""
    base = reverse("reviews:history")
    return f"{base}?{urlencode(query)}" if query else base


def _count_text(count: int) -> str:
    if count > _MAX_COUNT:
        return _("more than %(number)s decisions") % {"number": grouped(_MAX_COUNT)}
    return counted(count, "decision")


def _exports(active: Mapping[str, str], count: int) -> tuple[dict[str, str], ...]:
    """Return a link per format, with the active filters and the number of rows."""
    names = {"csv": "CSV", "jsonl": "JSON Lines"}
    address = reverse("reviews:export_history")
    return tuple(
        {
            "url": f"{address}?{urlencode({**active, 'as': kind})}",
            "label": _("Export %(number)s as %(format)s")
            % {"number": at_least(count, _MAX_COUNT), "format": name},
        }
        for kind, name in names.items()
        if count
    )


def _people() -> list[str]:
    """Return the names of all accounts and `system`; the audit table is too large to scan."""
    names = get_user_model().objects.order_by("username").values_list("username", flat=True)
    return ["system", *names[:_MAX_PEOPLE]]


def _selects(values: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    titles = Workflow.objects.order_by("title").values_list("title", flat=True)
    phases = [(each.value, components_labels.phase_text(each, past=True)) for each in TriggerPhase]
    choices = {
        "decision": (_("Decision"), [(each.value, _(str(each.label))) for each in Decision]),
        "reviewer": (_("Reviewer"), [(name, name) for name in _people()]),
        "workflow": (_("Workflow"), [(title, title) for title in titles]),
        "phase": (_("Phase"), phases),
        "edited": (_("Edited"), [("true", _("edited")), ("false", _("unchanged"))]),
        "bulk": (_("Single / bulk"), [("false", _("single")), ("true", _("bulk"))]),
    }
    return tuple(
        {"name": name, "label": label, "value": values[name], "options": tuple(options)}
        for name, (label, options) in choices.items()
    )


def _row(record: HumanReviewRecord) -> dict[str, Any]:
    return {
        "url": reverse("reviews:record", args=(record.pk,)),
        "decision": components_labels.record_outcome(record),
        "word": _("sent back") if record.decision == Decision.REQUEST_CHANGES else "",
        "sentence": components_labels.record_sentence(record),
        "subject": components_labels.record_subject(record),
        "comment": record.comment if record.reviewer_id else "",
        "at": record.reviewed_at,
    }


# --- one record -----------------------------------------------------------------------------------


def record_context(user: User, record: HumanReviewRecord) -> dict[str, Any]:
    """Return the context of one record.

    `record.execution` and the hold with its execution must be loaded.
    """
    ran = executed(record)
    views = record_views(record, ran)
    return {
        "id": record.pk,
        "sentence": components_labels.record_sentence(record),
        "subject": components_labels.record_subject(record),
        "decision": components_labels.record_outcome(record),
        "at": record.reviewed_at,
        "actor": record.actor,
        "reviewer_id": record.reviewer_id,
        "phase_text": components_labels.phase_text(record.trigger_phase, past=True),
        "run_url": f"{reverse('reviews:run', args=(record.execution_id,))}#e{record.version}",
        "run_title": components_labels.run_title(record.workflow_title, record.execution_id),
        "version": record.version,
        "comment": record.comment,
        "links": _links(record),
        "changes": diff(views["original"].value, views["edited"].value) if record.is_edited else (),
        "columns": _columns(user, record, ran, views),
        **_receipt(record, ran),
    }


def _links(record: HumanReviewRecord) -> tuple[dict[str, str], ...]:
    """Return links between a withdrawn decision and its withdrawal."""
    links = []
    if record.withdraws_id is not None:
        links.append((_("Withdrawn decision"), record.withdraws_id))
    later = HumanReviewRecord.objects.filter(withdraws=record).values_list("pk", flat=True).first()
    if later is not None:
        links.append((_("Withdrawal of this decision"), later))
    return tuple(
        {"label": label, "url": reverse("reviews:record", args=(pk,))} for label, pk in links
    )


def _columns(
    user: User, record: HumanReviewRecord, ran: list[Any], views: Mapping[str, Masked]
) -> tuple[dict[str, Any], ...]:
    erased = _erased(record)
    gone = erased if record.is_erased else ""
    instead = {
        "original": gone,
        "edited": gone if record.is_edited else _("No changes."),
        "executed": "" if ran else erased or _not_executed(record),
    }
    titles = {"original": _("Original"), "edited": _("Edited"), "executed": _("Executed")}
    may = may_reveal(user, record.execution, record.hold)
    texts = {
        name: "" if instead[name] else json_with_line_breaks(views[name].value) for name in COLUMNS
    }
    marked = _marked(texts, is_edited=record.is_edited)
    return tuple(
        {
            "title": titles[name],
            "segments": marked[name],
            "instead": instead[name],
            "masks": masks_context(views[name], record_place(record.pk, name), may=may),
        }
        for name in COLUMNS
    )


def _marked(texts: Mapping[str, str], *, is_edited: bool) -> dict[str, tuple[Segment, ...]]:
    """Return the texts of the columns with the parts marked that the next or last step changed."""
    decided = texts["edited"] if is_edited else texts["original"]
    edit = text_segments(texts["original"], texts["edited"]) if is_edited else ()
    run = text_segments(decided, texts["executed"]) if texts["executed"] else ()
    return {
        "original": _side(edit, "before") or _plain(texts["original"]),
        "edited": _side(edit, "after") or _plain(texts["edited"]),
        "executed": _side(run, "after"),
    }


def _side(rows: Iterable[TextRow], side: str) -> tuple[Segment, ...]:
    """Return one side of a comparison as segments, with the line breaks."""
    found: list[Segment] = []
    absent = "added" if side == "before" else "removed"
    for row in rows:
        if row.kind != absent:
            found += [*getattr(row, side), Segment("same", "\n")]
    return tuple(found[:-1])


def _plain(text: str) -> tuple[Segment, ...]:
    return (Segment("same", text),) if text else ()


def _erased(record: HumanReviewRecord) -> str:
    """Return when and why the data of the run was erased; "" if it was not."""
    if record.execution.erased_at is None:
        return ""
    entry = erasure_of(record.execution_id)
    return _("Erased on %(day)s under the retention policy “%(policy)s”.") % {
        "day": date_format(record.execution.erased_at, "j F Y"),
        "policy": entry.subject if entry else "?",
    }


def _not_executed(record: HumanReviewRecord) -> str:
    if record.decision == Decision.WITHDRAW:
        return _("Nothing: this record is a withdrawal.")
    if was_withdrawn(record):
        return _("Nothing: the decision was withdrawn before the run continued.")
    if record.decision == Decision.REJECT:
        return _("Nothing: it was rejected.")
    if record.decision == Decision.REQUEST_CHANGES:
        return _("Nothing: it was sent back, and the task ran again.")
    if record.reason == "replan_review":
        return _("The plan was changed as decided; see the activity of the run.")
    if not record.node_id:
        return _("Nothing: the approval let the run continue.")
    if is_early_vote(record):
        return _("See the last approval of the quorum.")
    if is_external(record):
        return _("Unknown: the agent has not reported the arguments.")
    if record.execution.status in ("COMPLETED", "FAILED", "ABORTED"):
        return _("Nothing: the run ended first.")
    return _("Not yet: the run has not reached this task.")


def _receipt(record: HumanReviewRecord, values: list[Any]) -> dict[str, Any]:
    """Return the digests and the verdict of the integrity check."""
    receipts = list(receipts_of(record))
    words_, status = _verdict(record, receipts, digest(values[0]) if values else "")
    # Deduplicated: all attempts of a task run with the same inputs unless data was altered.
    ran = dict.fromkeys(receipt.digest for receipt in receipts)
    lines = (
        (_("Shown"), record.shown_digest),
        (_("Decided"), record.decided_digest),
        *((_("Executed"), each) for each in ran or [""]),
        (_("Previous record"), record.previous_hash),
        (_("This record"), record.hash),
    )
    return {
        "receipt": tuple({"label": label, "value": value} for label, value in lines),
        "receipt_text": words_,
        "receipt_status": status,
    }


def _verdict(
    record: HumanReviewRecord, receipts: list[ExecutionReceipt], stored: str
) -> tuple[str, str]:
    """Return the verdict and its status; `stored` is the digest of the task's data, or ""."""
    whole = record_hash(record.previous_hash, record.canonical) == record.hash
    if not whole or canonical_text(record) != record.canonical:
        return _("this record was altered after it was signed"), "FAILED"
    if any(receipt.digest != record.decided_digest for receipt in receipts):
        return _("the executed data differs from the approved data"), "FAILED"
    if receipts and stored and stored != record.decided_digest:
        return _("the stored data of the task differs from the executed data"), "FAILED"
    if receipts:
        return _("the record is intact; the executed data is the approved data"), "COMPLETED"
    if stored:
        return _("the record is intact; there is no receipt of the execution"), "COMPLETED"
    return _("the record is intact"), "COMPLETED"


# --- denied attempts ------------------------------------------------------------------------------


_TRIED = {
    "APPROVE": N_("%(actor)s tried to approve %(subject)s in %(run)s"),
    "REJECT": N_("%(actor)s tried to reject %(subject)s in %(run)s"),
    "REQUEST_CHANGES": N_("%(actor)s tried to request changes to %(subject)s in %(run)s"),
    "WITHDRAW": N_("%(actor)s tried to withdraw the decision on %(subject)s in %(run)s"),
}


def denied_context(user: User, *, cursor: str) -> dict[str, Any]:
    """Return the context of the list of denied attempts; raises keyset.BadCursor."""
    text = AuditListText(
        heading=_("Denied attempts"),
        lead=_(
            "Attempts to decide a review without permission. These entries are kept permanently."
        ),
        nothing=_("No denied attempts"),
        nothing_more=_(
            "When somebody tries to decide a review without permission, the attempt is listed"
            " here with the reason."
        ),
    )
    address = reverse("reviews:denied")
    return audit_list_context(text, denied_attempts(user), _entry, address=address, cursor=cursor)


def _entry(attempt: DeniedAttempt) -> Entry:
    subject = components_labels.subject(attempt.hold) or components_labels.about(
        "", attempt.hold.reason
    )
    title = components_labels.run_title(attempt.execution.title, attempt.execution_id)
    params = {"actor": attempt.actor, "subject": subject, "run": title}
    return Entry(
        sentence=_(_TRIED[attempt.wanted]) % params,
        subject=subject,
        quote=render_stored(attempt, "reason"),
        at=attempt.at,
        url=reverse("reviews:decision", args=(attempt.execution_id, attempt.hold_id)),
    )
