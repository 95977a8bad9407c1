"""Forms of an account: the parts that the desk shows, over Django's own forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AdminPasswordChangeForm, AdminUserCreationForm
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import password_validators_help_texts
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    FormBase = forms.ModelForm[User]
    CreationBase = AdminUserCreationForm[User]
    PasswordBase = AdminPasswordChangeForm[User]
    GroupsBase = forms.ModelMultipleChoiceField[Group]
else:
    FormBase = forms.ModelForm
    CreationBase = AdminUserCreationForm
    PasswordBase = AdminPasswordChangeForm
    GroupsBase = forms.ModelMultipleChoiceField

_LABELS = {
    "username": _("User name"),
    "first_name": _("First name"),
    "last_name": _("Last name"),
    "email": _("E-mail address"),
    "is_staff": _("May open the admin"),
}
_HELP = {
    "username": _("For the sign-in: letters, digits and @ . + - _"),
    "is_staff": _("Permissions of the groups decide what this person may do there."),
}
_GROUPS_HELP = _("A group decides what this person sees, and which reviews are theirs to decide.")


class GroupsField(GroupsBase):
    """The groups of a person, as check boxes."""

    def __init__(self) -> None:
        super().__init__(
            queryset=Group.objects.order_by("name"),
            required=False,
            label=_("Groups"),
            widget=forms.CheckboxSelectMultiple,
            help_text=_GROUPS_HELP,
        )


def _set_up_passwords(fields: dict[str, Any]) -> None:
    """Word the fields of a password as the desk does."""
    fields["password1"].label = _("Password")
    fields["password1"].help_text = " ".join(password_validators_help_texts())
    fields["password2"].label = _("Repeat the password")
    fields["password2"].help_text = ""
    for name in ("password1", "password2"):
        fields[name].widget.attrs.pop("autofocus", None)


class AddPersonForm(CreationBase):
    """A new account with its groups and first password."""

    groups = GroupsField()

    class Meta:
        model = User
        fields = ("username", "first_name", "last_name", "email", "groups", "is_staff")
        labels = _LABELS
        help_texts = _HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _set_up_passwords(self.fields)
        password = self.fields["usable_password"]
        password.label = _("Sign-in with a password")
        password.help_text = _("Without a password, the person signs in with the sign-in provider.")
        if not settings.PASSWORD_LOGIN:
            password.initial = "false"


class PersonForm(FormBase):
    """Name, address and groups of an account."""

    groups = GroupsField()

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "groups", "is_staff")
        labels = _LABELS
        help_texts = _HELP


class PasswordForm(PasswordBase):
    """A new password for an account."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The desk sets passwords; the admin can also end the sign-in with one.
        self.fields.pop("usable_password", None)
        _set_up_passwords(self.fields)
