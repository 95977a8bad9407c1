"""What a user may do to the rows of a model, and the log of it: as in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import construct_change_message
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext as _

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
    log(actor, row, CHANGE, construct_change_message(form, (), add=False))


def log(actor: User, row: Model, flag: int, message: list[dict[str, Any]] | str) -> None:
    """Add an entry to the log that the admin shows as the history of the row."""
    rows = type(row)._default_manager.filter(pk=row.pk)
    LogEntry.objects.log_actions(actor.pk, rows, flag, change_message=message, single_object=True)
