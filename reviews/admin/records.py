"""The audit log in the admin: each record with its verdict, and exports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.audit.exports import FORMATS, create_export
from reviews.audit.pages import record_context
from reviews.components import labels
from reviews.components.views import current_user
from reviews.models import HumanReviewRecord
from reviews.templatetags import desk
from workflows.admin.read_only import ReadOnly
from workflows.executions.access import filter_visible

from .holds import PhaseFilter, ReasonFilter


class EditedFilter(admin.SimpleListFilter):
    """Whether the reviewer changed what was reviewed."""

    title = gettext_lazy("edits")
    parameter_name = "edited"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [("yes", _("With edits")), ("no", _("Without edits"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(is_edited=value == "yes") if value in ("yes", "no") else queryset


class PhaseOfRecordFilter(PhaseFilter):
    """Before or after the task ran."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(trigger_phase=self.value()) if self.value() else queryset


class SourceFilter(admin.SimpleListFilter):
    """Where the decision was made."""

    title = gettext_lazy("source")
    parameter_name = "source"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(source, labels.source_text(source)) for source in labels.SOURCES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(source=self.value()) if self.value() else queryset


@admin.register(HumanReviewRecord)
class HumanReviewRecordAdmin(ReadOnly):
    """The audit log."""

    empty_text = gettext_lazy(
        "An audit record keeps who decided what, and when: it appears here after the first "
        "decision."
    )
    actions = ("export_jsonl", "export_csv")
    list_display = ("sentence", "outcome", "place", "version", "reviewed_at")
    list_filter = ("decision", PhaseOfRecordFilter, EditedFilter, ReasonFilter, SourceFilter)
    linked_lookups = ("execution__id", "hold__id", "reviewer__id")
    # Not by comment: a search would find the secrets that are masked in it.
    search_fields = ("node_id", "target", "actor", "workflow_title")
    date_hierarchy = "reviewed_at"
    list_select_related = ("reviewer", "withdraws")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the records of visible runs, also of erased ones."""
        rows = admin.ModelAdmin.get_queryset(self, request)
        return filter_visible(rows, request.user)

    @admin.display(description=gettext_lazy("record"), ordering="id")
    def sentence(self, record: HumanReviewRecord) -> str:
        return labels.record_sentence(record)

    @admin.display(description=gettext_lazy("decision"), ordering="decision")
    def outcome(self, record: HumanReviewRecord) -> SafeString:
        return desk.status_chip(labels.record_outcome(record))

    @admin.display(description=gettext_lazy("source"), ordering="source")
    def place(self, record: HumanReviewRecord) -> str:
        return labels.source_text(record.source)

    @admin.action(description=gettext_lazy("Export as JSON Lines"), permissions=["view"])
    def export_jsonl(
        self, request: HttpRequest, queryset: QuerySet[HumanReviewRecord]
    ) -> HttpResponseBase:
        return self._export(request, queryset, "jsonl")

    @admin.action(description=gettext_lazy("Export as CSV"), permissions=["view"])
    def export_csv(
        self, request: HttpRequest, queryset: QuerySet[HumanReviewRecord]
    ) -> HttpResponseBase:
        return self._export(request, queryset, "csv")

    def _export(
        self, request: HttpRequest, queryset: QuerySet[HumanReviewRecord], kind: str
    ) -> HttpResponseBase:
        """Send the selected records as the history exports them, with the heads of the chains."""
        # By id alone: the list's joins and order are of no use to the export.
        rows = HumanReviewRecord.objects.filter(pk__in=queryset.order_by().values("pk"))
        export = create_export(
            rows.order_by("-id"), filters={"selected": "admin"}, user=current_user(request)
        )
        answer = StreamingHttpResponse(export.lines(kind), content_type=FORMATS[kind])
        name = f"history-{export.header.exported_at:%Y-%m-%d-%H%M}.{kind}"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        answer["Cache-Control"] = "no-store"
        return answer

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the record's columns with secrets masked, its digests and the verdict."""
        record = cast("HumanReviewRecord | None", self.get_object(request, unquote(object_id)))
        if record is None or request.method == "POST" or not self.has_view_permission(request):
            return super().change_view(request, object_id, form_url, extra_context)
        found = record_context(current_user(request), record)
        context = {
            **self.admin_site.each_context(request),
            "title": found["sentence"],
            "original": found["sentence"],
            "opts": HumanReviewRecord._meta,
            "record": found,
            "desk_url": reverse("reviews:record", args=(record.pk,)),
        }
        return TemplateResponse(
            request, "admin/reviews/humanreviewrecord/change_form.html", context
        )
