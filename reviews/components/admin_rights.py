"""What a user may do to the rows of a model, and the log of it: as in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from django.contrib import admin
from django.contrib.admin.models import CHANGE
from django.contrib.admin.utils import construct_change_message
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext as _

from workflows.security_events import services

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Action = Literal["view", "add", "change", "delete"]


def may(request: HttpRequest, action: Action, model: type[Model]) -> bool:
    """Return whether the admin lets the user of the request do this."""
    if not admin.site.has_permission(request):
        return False
    rights: Any = admin.site.get_model_admin(model)
    return bool(getattr(rights, f"has_{action}_permission")(request))


def check(request: HttpRequest, action: Action, model: type[Model]) -> None:
    """Raise PermissionDenied where the admin would."""
    if not may(request, action, model):
        raise PermissionDenied(_("Your account does not have the permission for this."))


def log_change(actor: User, row: Model, form: Any) -> None:
    """Log the fields that a form changed."""
    message = construct_change_message(form, (), add=False)
    services.log_change(actor=actor, row=row, flag=CHANGE, message=message)


def log(actor: User, row: Model, flag: int, message: list[dict[str, Any]] | str) -> None:
    """Add an entry to the log that the admin shows as the history of the row."""
    services.log_change(actor=actor, row=row, flag=flag, message=message)
