"""Rights of the planner's pages, and the workflow that a page names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _

from workflows.common.number_parsing import parse_natural_number
from workflows.executions.access import ADMIN, may_start, roles_of, workflows_for
from workflows.models import Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def may_save(user: User) -> bool:
    """Return whether the user can save workflows: admins only, as in the REST API."""
    return ADMIN in roles_of(user)


def check_may_start(user: User) -> None:
    """Refuse the planner and the editor to users who cannot start runs."""
    if not may_start(user):
        raise PermissionDenied(_("Your roles cannot start runs. Ask an operator."))


def check_may_save(user: User) -> None:
    """Refuse a save or a restored version to everyone but admins."""
    if not may_save(user):
        raise PermissionDenied(
            _("Only admins can save workflows. You can start the plan as a run.")
        )


def workflow_or_404(user: User, number: int | str) -> Workflow:
    """Return a workflow by its id; only admins see disabled ones."""
    rows = workflows_for(user)
    rows = rows if may_save(user) else rows.filter(enabled=True)
    pk = number if isinstance(number, int) else parse_natural_number(number) or 0
    return get_object_or_404(rows, pk=pk)


def workflow_to_change_or_404(user: User, number: int | str) -> Workflow:
    """Return a workflow that the user can save."""
    if not may_save(user):
        raise Http404
    return workflow_or_404(user, number)
