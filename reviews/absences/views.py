"""Page of a person's absences: set one, end one, and see for whom they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from reviews.components.views import SeeOther, current_user, page
from reviews.decisions.edits import ReviewInvalid
from workflows.models import Absence

from .services import absence_problems, end_absence, possible_delegates, set_absence

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_MAX_PAST = 10
TEMPLATE = "reviews/absences/absences.html"


class Moment(forms.DateTimeInput):
    """A field of the browser for date and time; seconds are left out."""

    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%dT%H:%M", attrs={"class": "input"})


class AbsenceForm(forms.Form):
    """From, until and the delegate."""

    begins_at = forms.DateTimeField(label=gettext_lazy("From"), widget=Moment)
    ends_at = forms.DateTimeField(label=gettext_lazy("Until"), widget=Moment)
    delegate = forms.ChoiceField(
        label=gettext_lazy("Delegate"), widget=forms.Select(attrs={"class": "select"})
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        names = [(name, name) for name in possible_delegates(user)]
        self.fields["delegate"].choices = [("", _("Choose a person…")), *names]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if {"begins_at", "ends_at", "delegate"} <= values.keys():
            people = get_user_model().objects.filter(username=values["delegate"])
            values["delegate"] = people.first()
            for each in absence_problems(self.user, self.user, **values):
                self.add_error(each.path, sentence(each.message))
        return values


def sentence(message: str) -> str:
    """Return a message that follows a field's name as a sentence of its own."""
    return f"{message[:1].upper()}{message[1:]}."


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def absences(request: HttpRequest) -> HttpResponse:
    """Show the user's absences; a POST sets one."""
    user = current_user(request)
    form = AbsenceForm(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            set_absence(actor=user, user=user, **form.cleaned_data)
        except ReviewInvalid as invalid:  # another request was faster
            for each in invalid.errors:
                form.add_error(each.path, sentence(each.message))
        else:
            name = form.cleaned_data["delegate"].get_username()
            messages.success(request, _("%(name)s decides for you in this time.") % {"name": name})
            return SeeOther(reverse("reviews:absences"))
    status = 422 if request.method == "POST" else 200
    context = {
        "form": form,
        "ahead": Absence.objects.ahead().filter(user=user.pk).select_related("delegate"),
        "past": _past(user),
        "stands_in": Absence.objects.ahead().filter(delegate=user.pk).select_related("user"),
        "now": timezone.now(),
        "time_zone": timezone.get_current_timezone_name(),
    }
    return page(request, TEMPLATE, context, section="absences", status=status)


def _past(user: User) -> list[Absence]:
    mine = Absence.objects.filter(user=user.pk).select_related("delegate")
    return list(mine.exclude(pk__in=Absence.objects.ahead().values("pk"))[:_MAX_PAST])


@login_required
@require_POST
def end(request: HttpRequest, absence_id: int) -> HttpResponse:
    """End or cancel one of the user's absences."""
    user = current_user(request)
    absence = get_object_or_404(Absence, pk=absence_id, user=user.pk)
    if end_absence(actor=user, absence=absence):
        messages.success(request, _("The absence has ended. You decide for yourself again."))
    else:
        messages.success(request, _("The absence had ended already."))
    return SeeOther(reverse("reviews:absences"))
