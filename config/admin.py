"""People, and sign-in alerts: which limits were reached, and ending a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from config.auth.sign_in_limits import unlock
from workflows.models import SignInAlert

if TYPE_CHECKING:
    Base = admin.ModelAdmin[SignInAlert]
    PersonBase = UserAdmin[User]
    GroupBase = GroupAdmin
else:
    Base = admin.ModelAdmin
    PersonBase = UserAdmin
    GroupBase = GroupAdmin


admin.site.unregister((User, Group))


@admin.register(User)
class PersonAdmin(PersonBase):
    """People, with a link to what they decided."""

    list_display = ("username", "email", "group_names", "is_staff", "is_active", "last_login")
    readonly_fields = ("last_login", "date_joined")
    # A plain list: the two boxes of Django's script have labels that screen readers do not read.
    filter_horizontal = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Leave out the password's hash for those who only read."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
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
        """The decisions of this person on the desk."""
        return f"{reverse('reviews:history')}?{urlencode({'reviewer': obj.get_username()})}"


@admin.register(Group)
class PeopleGroupAdmin(GroupBase):
    """Groups and their permissions."""

    filter_horizontal = ()


@admin.register(SignInAlert)
class SignInAlertAdmin(Base):
    """Nobody writes alerts here; unlocking needs the permission to change them."""

    list_display = ("created_at", "kind", "account", "address", "failures", "locked_until")
    list_filter = ("kind", "created_at")
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
