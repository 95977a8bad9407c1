"""Admin of retention: policies with their previews, legal holds, and the log of both."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from reviews.components.number_formatting import grouped
from reviews.components.views import current_user
from reviews.models import LegalHold, RetentionEntry, RetentionPolicy
from reviews.retention.selectors import preview
from reviews.retention.services import (
    delete_policy,
    enabling_problem,
    lift_legal_hold,
    place_legal_hold,
    save_policy,
)
from workflows.admin.filters import StatusFilter
from workflows.models import Execution

from .read_only import ReadOnly


class PolicyForm(forms.ModelForm[RetentionPolicy]):
    """A policy; it can be enabled once its preview was shown."""

    class Meta:
        model = RetentionPolicy
        fields = ("workflow", "keep_days", "erase_records", "enabled")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        candidate = RetentionPolicy(pk=self.instance.pk, **values)
        if problem := enabling_problem(candidate):
            self.add_error("enabled", problem)
        return values


@admin.register(RetentionPolicy)
class RetentionPolicyAdmin(admin.ModelAdmin[RetentionPolicy]):
    """How long data of ended runs is kept."""

    empty_text = gettext_lazy(
        "A retention policy says after how many days the data of ended runs is erased: add "
        "one, look at its preview, then enable it."
    )
    form = PolicyForm
    list_display = ("__str__", "erase_records", "enabled")
    list_select_related = ("workflow",)
    readonly_fields = ("preview",)
    fields = ("workflow", "keep_days", "erase_records", "enabled", "preview")

    @admin.display(description=gettext_lazy("preview"))
    def preview(self, policy: RetentionPolicy) -> SafeString | str:
        """What the stored policy erases now."""
        stored = RetentionPolicy.objects.filter(pk=policy.pk).first()
        if stored is None:
            return _("Shown once the policy is saved.")
        if stored.keep_days is None:
            return _("Nothing: the data is kept forever.")
        found = preview(stored)
        if not found.runs or found.oldest is None or found.newest is None:
            return _("Nothing now: no ended run is older than %(days)s days.") % {
                "days": stored.keep_days
            }
        first = _(
            "The data of %(runs)s runs that ended from %(oldest)s to %(newest)s. In the oldest"
            " %(counted)s of them:"
        ) % {
            "runs": grouped(found.runs),
            "oldest": date_format(found.oldest, "j F Y"),
            "newest": date_format(found.newest, "j F Y"),
            "counted": grouped(found.counted),
        }
        text = (
            _("The payloads and comments of %(count)s audit records of these runs are erased too.")
            if stored.erase_records
            else _("%(count)s audit records of these runs are kept.")
        )
        last = text % {"count": grouped(found.records)}
        rows = format_html_join(
            "", "<li>{} {}</li>", ((grouped(count), name) for name, count in found.rows.items())
        )
        return format_html("<p>{}</p><ul>{}</ul><p>{}</p>", first, rows, last)

    def save_model(
        self, request: HttpRequest, obj: RetentionPolicy, form: Any, change: Any
    ) -> None:
        save_policy(actor=current_user(request), policy=obj)

    def delete_model(self, request: HttpRequest, obj: RetentionPolicy) -> None:
        delete_policy(actor=current_user(request), policy=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[RetentionPolicy]) -> None:
        for policy in queryset:
            delete_policy(actor=current_user(request), policy=policy)


class LegalHoldForm(forms.ModelForm[LegalHold]):
    """A legal hold of a run, which is given by its number, of a workflow or of an MCP gate."""

    execution = forms.ModelChoiceField(
        queryset=Execution.objects.filter(erased_at=None),
        required=False,
        label=gettext_lazy("Run"),
        widget=forms.NumberInput,
        help_text=gettext_lazy("The number of the run."),
        error_messages={
            "invalid_choice": gettext_lazy("There is no such run, or its data was erased.")
        },
    )

    class Meta:
        model = LegalHold
        fields = ("execution", "workflow", "gate", "reason")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        chosen = [name for name in ("execution", "workflow", "gate") if values.get(name)]
        if len(chosen) != 1 and not self.errors:
            self.add_error(None, _("Enter either a run, a workflow or an MCP gate."))
        return values


class HoldStatusFilter(StatusFilter):
    """Whether the legal hold still keeps data."""

    choices_by_key = {
        "in_force": (gettext_lazy("In force"), Q(lifted_at=None)),
        "lifted": (gettext_lazy("Lifted"), Q(lifted_at__isnull=False)),
    }


@admin.register(LegalHold)
class LegalHoldAdmin(admin.ModelAdmin[LegalHold]):
    """Legal holds; one is lifted, never changed."""

    empty_text = gettext_lazy(
        "A legal hold keeps the data of a run or of a workflow from being erased: add one "
        "for each case."
    )
    form = LegalHoldForm
    list_display = (
        "__str__", "reason", "placed_by", "placed_at", "lifted_by", "lifted_at",
    )  # fmt: skip
    list_filter = (HoldStatusFilter,)
    list_select_related = ("workflow", "gate", "placed_by", "lifted_by")
    search_fields = ("=execution__id", "workflow__title", "gate__name", "reason")
    actions = ("lift_holds",)

    def has_change_permission(self, request: HttpRequest, obj: LegalHold | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: LegalHold | None = None) -> bool:
        return False

    def has_lift_permission(self, request: HttpRequest) -> bool:
        """The permission to change legal holds allows lifting them."""
        return super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: LegalHold, form: Any, change: Any) -> None:
        obj.pk = place_legal_hold(actor=current_user(request), **form.cleaned_data).pk

    @admin.action(description=gettext_lazy("Lift selected legal holds"), permissions=["lift"])
    def lift_holds(self, request: HttpRequest, queryset: QuerySet[LegalHold]) -> None:
        """Lift them now."""
        actor = current_user(request)
        count = sum(lift_legal_hold(actor=actor, hold=each) for each in queryset)
        text = ngettext("%(count)s legal hold lifted.", "%(count)s legal holds lifted.", count)
        self.message_user(request, text % {"count": count})


@admin.register(RetentionEntry)
class RetentionEntryAdmin(ReadOnly, admin.ModelAdmin[RetentionEntry]):
    """What retention did, and who changed policies and legal holds."""

    empty_text = gettext_lazy(
        "The retention log lists what was erased, and each change of a policy or legal "
        "hold: it fills by itself."
    )
    list_display = ("__str__", "actor", "at")
    list_filter = ("kind",)
    search_fields = ("subject", "actor")
    date_hierarchy = "at"
