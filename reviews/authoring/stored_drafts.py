"""Unsaved drafts of the plan editor, kept on the server until they are saved or discarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reviews.models import PlanDraft
from workflows.common.number_parsing import parse_natural_number
from workflows.executions.access import workflows_for
from workflows.executions.definitions import WorkflowChanged, seen_mark
from workflows.models import Workflow

from . import editor_draft
from .editor_draft import EditorDraft
from .rights import may_save

if TYPE_CHECKING:
    from datetime import datetime

    from django.contrib.auth.models import User


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """A draft and when it was changed; `conflict` if its workflow was saved since then."""

    draft: EditorDraft
    changed_at: datetime
    conflict: WorkflowChanged | None


def stored_draft(user: User, draft: EditorDraft) -> StoredDraft | None:
    """Return what the user has changed earlier of the draft's workflow, or of a new one."""
    workflow = _workflow(user, draft)
    if draft.workflow and workflow is None:
        return None
    row = PlanDraft.objects.filter(user=user, workflow=workflow).first()
    if row is None:
        return None
    kept = editor_draft.read(row.text)
    changed = workflow is not None and seen_mark(workflow) != kept.seen
    conflict = WorkflowChanged(workflow) if workflow and changed else None
    return StoredDraft(kept, row.changed_at, conflict)


def keep(user: User, draft: EditorDraft) -> None:
    """Store a draft in place of the earlier one; a draft without changes is not stored."""
    workflow = _workflow(user, draft)
    if draft.workflow and workflow is None:
        return
    opened = EditorDraft() if workflow is None else editor_draft.of_workflow(workflow)
    if draft.has_definition_of(opened):
        discard(user, draft)
        return
    PlanDraft.objects.update_or_create(
        user=user, workflow=workflow, defaults={"text": draft.as_json()}
    )


def discard(user: User, draft: EditorDraft) -> None:
    """Delete the stored draft of the same workflow, or of a new one."""
    PlanDraft.objects.filter(
        user=user, workflow=parse_natural_number(draft.workflow) or None
    ).delete()


def _workflow(user: User, draft: EditorDraft) -> Workflow | None:
    """Return the workflow that the draft changes, if the user can save it."""
    number = parse_natural_number(draft.workflow)
    if not number or not may_save(user):
        return None
    return workflows_for(user).filter(pk=number).first()
