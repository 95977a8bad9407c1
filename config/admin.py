"""People, and sign-in alerts: which limits were reached, and ending a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import ManyToManyField, QuerySet
from django.forms import ModelForm, ModelMultipleChoiceField
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy

from config.auth.sign_in_limits import unlock
from reviews.people import rights
from reviews.people.services import (
    change_members,
    end_access,
    revoke_tokens,
    send_password_link,
    set_active,
)
from workflows.admin.filters import TimeFilter
from workflows.executions.access import ROLES
from workflows.models import SignInAlert

admin.site.unregister((User, Group))


class PermissionsField(ModelMultipleChoiceField[Permission]):
    """Permissions with the name of their model, not with the label of its app."""

    def label_from_instance(self, obj: Permission) -> str:
        return f"{obj.content_type.name} | {obj.name}"


class PersonForm(UserChangeForm[User]):
    """An account; `actor` is the user who changes it."""

    actor: User

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "is_active" in self.fields:
            self.fields["is_active"].help_text = gettext_lazy(
                "Without it the person can no longer sign in: the password, sessions, tokens, "
                "claims, grants, absences, webhooks and links to chats end at once. Decisions and "
                "runs stay."
            )

    def clean(self) -> dict[str, Any]:
        """Refuse to give more than the actor has, and to remove the last administrator."""
        super().clean()
        values = self.cleaned_data
        if self.errors:
            return values
        others = User.objects.exclude(pk=self.instance.pk)
        if others.filter(username__iexact=values["username"]).exists():
            raise ValidationError({"username": "Another account has this name."})
        try:
            # The admin validates and saves in one transaction.
            rights.check_account(
                self.actor,
                self.instance,
                is_active=values["is_active"],
                is_staff=values["is_staff"],
                is_superuser=values["is_superuser"],
                groups=values["groups"],
                permissions=values["user_permissions"],
            )
        except rights.ChangeRefused as refused:
            raise ValidationError(str(refused)) from None
        return values


@admin.register(User)
class PersonAdmin(UserAdmin[User]):
    """People: their groups, and actions on several of them."""

    empty_text = gettext_lazy("An account lets a person sign in: add one, and choose its groups.")
    list_display = ("username", "email", "group_names", "is_staff", "is_active", "last_login")
    readonly_fields = ("last_login", "date_joined")
    # A plain list: the two boxes of Django's script have labels that screen readers do not read.
    filter_horizontal = ()
    form = PersonForm
    actions = ("activate", "deactivate", "send_password_link", "revoke_tokens")

    @admin.action(description="Activate", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Let the selected people sign in again, without what has ended."""
        self._for_each(request, queryset, partial(set_active, active=True), "Activated: %s.")

    @admin.action(description="Deactivate", permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """End all access of the selected people."""
        self._for_each(request, queryset, partial(set_active, active=False), "Deactivated: %s.")

    @admin.action(description="Send a link to set a new password", permissions=["change"])
    def send_password_link(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Mail each selected person a link; nobody else reads it."""
        self._for_each(request, queryset, send_password_link, "Sent a link to: %s.")

    @admin.action(description="Revoke API tokens", permissions=["revoke_tokens"])
    def revoke_tokens(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Revoke all API tokens of the selected people."""
        self._for_each(request, queryset, revoke_tokens, "Revoked the API tokens of: %s.")

    def has_revoke_tokens_permission(self, request: HttpRequest) -> bool:
        """Whether the user may change tokens; asked by the action."""
        return _actor(request).has_perm("workflows.change_apitoken")

    def _for_each(
        self,
        request: HttpRequest,
        people: Iterable[User],
        change: Callable[..., None],
        text: str,
    ) -> None:
        """Change each person, and report who was changed and who could not be."""
        changed = []
        for person in people:
            try:
                change(actor=_actor(request), person=person)
            except (rights.ChangeRefused, PermissionDenied) as refused:
                self.message_user(request, f"{person}: {refused}", messages.ERROR)
            else:
                changed.append(person.get_username())
        if changed:
            self.message_user(request, text % ", ".join(changed), messages.SUCCESS)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        """Refuse a new password for an account that has more rights than the user."""
        person = self.get_object(request, unquote(id))
        if person is not None and self.has_change_permission(request, person):
            rights.check_may_take_over(_actor(request), person)
        return super().user_change_password(request, id, form_url)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """An account's e-mail address receives its new password, so it is as good as one."""
        readonly = super().get_readonly_fields(request, obj)
        return readonly if self._may_take_over(request, obj) else (*readonly, "email")

    def _may_take_over(self, request: HttpRequest, person: User | None) -> bool:
        return person is None or rights.may_take_over(_actor(request), person)

    def save_model(
        self,
        request: HttpRequest,
        obj: User,
        form: Any,
        change: bool,  # noqa: FBT001 - Django's
    ) -> None:
        """End the access of an account that this form deactivates."""
        super().save_model(request, obj, form, change)
        if change and "is_active" in form.changed_data and not obj.is_active:
            end_access(actor=_actor(request), person=obj)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or rights.may_manage(_actor(request), obj))

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Administrators are deactivated or lose the role before their account is deleted."""
        allowed = super().has_delete_permission(request, obj)
        if not allowed or obj is None:
            return allowed
        return rights.may_manage(_actor(request), obj) and not rights.is_administrator(obj)

    def formfield_for_manytomany(
        self, db_field: ManyToManyField[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "user_permissions":
            kwargs["form_class"] = PermissionsField
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Pass the user to the form, which checks what they may give."""
        form: Any = super().get_form(request, *args, **kwargs)
        form.actor = request.user
        return form

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Leave out the password for those who may not set it."""
        fieldsets = super().get_fieldsets(request, obj)
        may_set = self.has_change_permission(request, obj) and self._may_take_over(request, obj)
        if obj is None or may_set:
            return fieldsets
        return [
            (
                name,
                {**options, "fields": [each for each in options["fields"] if each != "password"]},
            )
            for name, options in fieldsets
        ]

    @admin.display(description="groups")
    def group_names(self, person: User) -> str:
        return ", ".join(group.name for group in person.groups.all()) or "-"

    def view_on_site(self, obj: User) -> str:
        """The person's decisions."""
        return f"{reverse('reviews:history')}?{urlencode({'reviewer': obj.get_username()})}"


def _actor(request: HttpRequest) -> User:
    return cast("User", request.user)


class AddGroupForm(ModelForm[Group]):
    """A new group."""

    actor: User

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            rights.check_group_name(name)
        except rights.ChangeRefused as refused:
            raise ValidationError(str(refused)) from None
        return name


class GroupForm(ModelForm[Group]):
    """The members of a group; `actor` is the user who changes them."""

    actor: User
    # A plain list, as on the page of a person: screen readers read it.
    members = ModelMultipleChoiceField[User](
        queryset=User.objects.order_by("username"), required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["members"] = list(self.instance.user_set.all())

    def clean(self) -> dict[str, Any]:
        """Refuse members that the actor may not add or remove."""
        super().clean()
        if "members" in self.cleaned_data:
            try:
                # The admin validates and saves in one transaction.
                rights.check_members(self.actor, self.instance, **self.changed_members())
            except rights.ChangeRefused as refused:
                self.add_error("members", str(refused))
        return self.cleaned_data

    def changed_members(self) -> dict[str, list[User]]:
        """Return the people to add and to remove."""
        wanted = set(self.cleaned_data["members"])
        before = set(self.instance.user_set.all())
        return {"add": list(wanted - before), "remove": list(before - wanted)}


@admin.register(Group)
class PeopleGroupAdmin(GroupAdmin):
    """Groups and their members."""

    empty_text = gettext_lazy("A group gives its members reviews: add one, and choose its members.")
    filter_horizontal = ()

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> tuple[str, ...]:
        return ("name", "members") if obj else ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        """Roles, policies and settings name the group, so its name stays."""
        return ("name",) if obj else ()

    def get_form(
        self,
        request: HttpRequest,
        obj: Group | None = None,
        change: bool = False,  # noqa: FBT001, FBT002 - Django's
        **kwargs: Any,
    ) -> Any:
        """Pass the user to the form, which checks what they may give."""
        kwargs["form"] = GroupForm if obj else AddGroupForm
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.actor = request.user
        return form

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: Any) -> None:
        super().save_related(request, form, formsets, change)
        if change:
            changed = form.changed_members()
            change_members(actor=_actor(request), group=form.instance, **changed)

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or obj.name not in ROLES)


@admin.register(SignInAlert)
class SignInAlertAdmin(admin.ModelAdmin[SignInAlert]):
    """Nobody writes alerts here; unlocking needs the permission to change them."""

    empty_text = gettext_lazy(
        "A sign-in alert reports too many failed sign-ins: it appears here when a limit is "
        "reached, and you can end the lock."
    )
    list_display = ("created_at", "kind", "account", "address", "failures", "locked_until")
    list_filter = ("kind", ("created_at", TimeFilter))
    search_fields = ("account", "address")
    readonly_fields = (*list_display, "mailed_at")
    fields = readonly_fields
    actions = ("unlock_chosen",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: SignInAlert | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: SignInAlert | None = None) -> bool:
        return False

    def has_unlock_permission(self, request: HttpRequest) -> bool:
        """Asked by the action."""
        return super().has_change_permission(request)

    @admin.action(description="Unlock", permissions=["unlock"])
    def unlock_chosen(self, request: HttpRequest, queryset: QuerySet[SignInAlert]) -> None:
        """Sign-ins of these accounts and from these addresses are accepted again."""
        unlock(alerts=queryset)
        self.message_user(request, "Unlocked: sign-ins are accepted again.")
