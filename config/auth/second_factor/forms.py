"""Forms for second-factor codes; a wrong code counts as a failed sign-in."""

from __future__ import annotations

from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from config.auth.sign_in_limits import is_locked, note_failure


class _LimitedCode:
    """Apply `config.auth.sign_in_limits` to a form with a `code`."""

    def clean_code(self) -> str:
        """Validate the code; raises ValidationError for a wrong one and beyond a limit."""
        request, account = context.request, self.user.get_username()  # type: ignore[attr-defined]
        if is_locked(request, account):
            request.axes_locked_out = True
            request.axes_credentials = {"username": account}
            raise ValidationError(_("Too many wrong codes. Try again later."))
        try:
            code: str = super().clean_code()  # type: ignore[misc]
        except ValidationError:
            note_failure(request, account)
            raise
        return code


class ConfirmForm(_LimitedCode, ReauthenticateForm):
    """A code entered by a user who is signed in."""


class SignInCodeForm(_LimitedCode, AuthenticateForm):
    """A code entered during sign-in, after OpenID Connect."""
