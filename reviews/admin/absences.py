"""Admin of absences: admins set and end them for others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from reviews.absences.services import absence_problems, end_absence, set_absence
from reviews.absences.views import sentence
from reviews.decisions.rights import NotAllowed
from workflows.admin.filters import StatusFilter
from workflows.models import Absence

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    Base = admin.ModelAdmin[Absence]
    BaseForm = forms.ModelForm[Absence]
else:
    Base = admin.ModelAdmin
    BaseForm = forms.ModelForm


class AbsenceForm(BaseForm):
    """An absence with the checks of the desk's page; `actor` is the user who sets it."""

    actor: User

    class Meta:
        model = Absence
        fields = ("user", "delegate", "begins_at", "ends_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django's widget shows one label for two inputs, which screen readers attach to neither.
        for field in self.fields.values():
            if isinstance(field.widget, forms.MultiWidget):
                date, time = field.widget.widgets
                date.attrs["aria-label"] = _("%(field)s: date") % {"field": field.label}
                time.attrs["aria-label"] = _("%(field)s: time") % {"field": field.label}

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if set(self.Meta.fields) <= values.keys():
            for each in absence_problems(self.actor, **values):
                self.add_error(each.path, sentence(each.message))
        return values


class AbsenceStatusFilter(StatusFilter):
    """Whether the delegate decides now."""

    choices_by_key = {
        "now": (
            gettext_lazy("Away now"),
            Q(cancelled_at=None, begins_at__lte=Now(), ends_at__gt=Now()),
        ),
        "planned": (gettext_lazy("Planned"), Q(cancelled_at=None, begins_at__gt=Now())),
        "over": (gettext_lazy("Over"), Q(cancelled_at=None, ends_at__lte=Now())),
        "cancelled": (gettext_lazy("Cancelled"), Q(cancelled_at__isnull=False)),
    }


@contextmanager
def _as_permission_denied() -> Iterator[None]:
    """Show the refusal of the service as the page for missing rights."""
    try:
        yield
    except NotAllowed as denied:
        raise PermissionDenied(denied.message) from None


@admin.register(Absence)
class AbsenceAdmin(Base):
    """Who decides for whom, and when; an absence is ended, never changed."""

    empty_text = gettext_lazy(
        "An absence lets a delegate decide for a person who is away: add one, or let people "
        "enter their own on the desk."
    )
    form = AbsenceForm
    list_display = (
        "user", "delegate", "begins_at", "ends_at", "created_by", "cancelled_at", "cancelled_by",
    )  # fmt: skip
    list_filter = (AbsenceStatusFilter,)
    list_select_related = ("user", "delegate")
    search_fields = ("user__username", "delegate__username")
    actions = ("end_absences",)

    def has_change_permission(self, request: HttpRequest, obj: Absence | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Absence | None = None) -> bool:
        return False

    def has_end_permission(self, request: HttpRequest) -> bool:
        """The permission to change absences allows ending them."""
        return super().has_change_permission(request)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, *args, **kwargs)
        form.actor = request.user
        return form

    def log_addition(self, request: HttpRequest, obj: Absence, message: Any) -> Any:
        """Add no entry: the service logs the absence with its people and times."""

    def save_model(self, request: HttpRequest, obj: Absence, form: Any, change: Any) -> None:
        actor = cast("User", request.user)
        with _as_permission_denied():
            obj.pk = set_absence(actor=actor, **form.cleaned_data).pk

    @admin.action(description="End selected absences", permissions=["end"])
    def end_absences(self, request: HttpRequest, queryset: QuerySet[Absence]) -> None:
        """End them now."""
        actor = cast("User", request.user)
        rows = queryset.select_related("user")
        with _as_permission_denied():
            count = sum(end_absence(actor=actor, absence=each) for each in rows)
        text = ngettext("%(count)s absence ended.", "%(count)s absences ended.", count)
        self.message_user(request, text % {"count": count})
