"""Pages of people: the list, a new account, and one account with its groups and password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import get_user_model, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from reviews import conf
from reviews.components.admin_rights import check, may
from reviews.components.views import SeeOther, current_user, page, search_text

from . import rights, services
from .forms import AddPersonForm, PasswordForm, PersonForm

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_SECTION: Final = "people"
_LIST, _ADD, _ONE = (f"reviews/people/{name}.html" for name in ("people", "add", "person"))
_MAX_DIGITS: Final = 6


def _rows(q: str, group: str, status: str) -> QuerySet[User]:
    rows = get_user_model().objects.order_by("username").prefetch_related("groups")
    for word in q.split():
        named = (Q(username__icontains=word), Q(email__icontains=word))
        names = (Q(first_name__icontains=word), Q(last_name__icontains=word))
        rows = rows.filter(named[0] | named[1] | names[0] | names[1])
    if group:
        rows = rows.filter(groups__name=group)
    if status in ("active", "inactive"):
        rows = rows.filter(is_active=status == "active")
    return rows


def _row(person: User) -> dict[str, Any]:
    return {
        "id": person.pk,
        "url": reverse("reviews:person", args=(person.pk,)),
        "username": person.get_username(),
        "detail": " · ".join(filter(None, (person.get_full_name(), person.email))),
        "groups": ", ".join(sorted(group.name for group in person.groups.all())),
        "superuser": person.is_superuser,
        "active": person.is_active,
        "last_login": person.last_login,
    }


@login_required
@require_safe
def people(request: HttpRequest) -> HttpResponse:
    """List accounts by user name, with search."""
    check(request, "view", get_user_model())
    q, group = search_text(request, "q"), search_text(request, "group")
    status = search_text(request, "status")
    number = request.GET.get("page", "")
    pages = Paginator(_rows(q, group, status), conf.page_size())
    shown = pages.get_page(int(number) if number.isdecimal() and len(number) <= _MAX_DIGITS else 1)
    query = urlencode({"q": q, "group": group, "status": status})
    base = f"{reverse('reviews:people')}?{query}"
    context = {
        "rows": tuple(_row(each) for each in shown),
        "total": pages.count,
        "q": q,
        "group": group,
        "status": status,
        "groups": tuple(Group.objects.order_by("name").values_list("name", flat=True)),
        "add_url": reverse("reviews:add_person") if _may_add(request) else "",
        "next_url": f"{base}&page={shown.number + 1}" if shown.has_next() else "",
        "previous_url": f"{base}&page={shown.number - 1}" if shown.has_previous() else "",
    }
    return page(request, _LIST, context, section=_SECTION)


def _may_add(request: HttpRequest) -> bool:
    """Return whether the user may add accounts; Django's admin asks for both permissions too."""
    model = get_user_model()
    return may(request, "add", model) and may(request, "change", model)


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def add_person(request: HttpRequest) -> HttpResponse:
    """Create an account with its groups and first password."""
    check(request, "add", get_user_model())
    check(request, "change", get_user_model())
    form = AddPersonForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        status = 422 if request.method == "POST" else 200
        return page(request, _ADD, {"form": form}, section=_SECTION, status=status)
    try:
        person = services.add_person(actor=current_user(request), form=form)
    except rights.ChangeRefused as refused:
        form.add_error(None, str(refused))
        return page(request, _ADD, {"form": form}, section=_SECTION, status=422)
    messages.success(request, _("Added %(name)s.") % {"name": person.get_username()})
    return SeeOther(reverse("reviews:person", args=(person.pk,)))


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def person(request: HttpRequest, person_id: int) -> HttpResponse:
    """Show an account; a POST runs the action of a button."""
    model = get_user_model()
    check(request, "view", model)
    found = get_object_or_404(model, pk=person_id)
    if request.method != "POST":
        return _page(request, found)
    check(request, "change", model)
    action = request.POST.get("do", "")
    if action in ("activate", "deactivate"):
        return _set_active(request, found, active=action == "activate")
    if action == "password":
        return _set_password(request, found)
    return _save(request, found)


def _page(request: HttpRequest, found: User, **forms: Any) -> HttpResponse:
    """Show the account; `forms` are submitted ones with errors."""
    may_change = may(request, "change", get_user_model()) and rights.may_manage(
        current_user(request), found
    )
    context: dict[str, Any] = {
        "person": found,
        "row": _row(found),
        "itself": found.pk == current_user(request).pk,
        "may_change": may_change,
        "decisions_url": f"{reverse('reviews:history')}?"
        + urlencode({"reviewer": found.get_username()}),
    }
    if may_change:
        context |= {"form": PersonForm(instance=found), "password_form": PasswordForm(found)}
    status = 422 if forms else 200
    return page(request, _ONE, {**context, **forms}, section=_SECTION, status=status)


def _save(request: HttpRequest, found: User) -> HttpResponse:
    form = PersonForm(request.POST, instance=found)
    if not form.is_valid():
        return _page(request, found, form=form)
    try:
        services.change_person(actor=current_user(request), form=form)
    except rights.ChangeRefused as refused:
        form.add_error(None, str(refused))
        return _page(request, found, form=form)
    messages.success(request, _("Saved."))
    return SeeOther(reverse("reviews:person", args=(found.pk,)))


def _set_password(request: HttpRequest, found: User) -> HttpResponse:
    form = PasswordForm(found, request.POST)
    if not form.is_valid():
        return _page(request, found, password_form=form)
    services.set_password(actor=current_user(request), form=form)
    if found.pk == request.user.pk:
        update_session_auth_hash(request, found)
    messages.success(request, _("Password set. Other sessions of this account have ended."))
    return SeeOther(reverse("reviews:person", args=(found.pk,)))


def _set_active(request: HttpRequest, found: User, *, active: bool) -> HttpResponse:
    try:
        services.set_active(actor=current_user(request), person=found, active=active)
    except rights.ChangeRefused as refused:
        messages.error(request, str(refused))
    else:
        text = _("Activated. %(name)s can sign in again.")
        if not active:
            text = _("Deactivated. Sessions and tokens of %(name)s no longer work.")
        messages.success(request, text % {"name": found.get_username()})
    return SeeOther(reverse("reviews:person", args=(found.pk,)))
