"""Import of a file into the plan editor: as a new workflow, or as the next version of one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.validation import Problem
from workflows.executions.access import workflows_for
from workflows.executions.definitions import VERSIONED, seen_mark
from workflows.models import Workflow

from . import workflow_files
from .editor_draft import EditorDraft, of_workflow
from .rights import may_save, workflow_to_change_or_404
from .version_pages import definition_difference
from .workflow_files import NoWorkflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import QueryDict

ACTIONS = ("import", "import_new", "import_version")


def imported(
    user: User, draft: EditorDraft, action: str, data: QueryDict
) -> tuple[EditorDraft, dict[str, Any] | None]:
    """Return the draft of a file, or the old draft with a problem or with an offer.

    The offer is made for a file that could be the next version of a workflow: the context of a
    choice between a new workflow and a new version, with the difference.
    """
    text = data.get("import_text", "").replace("\r\n", "\n")
    try:
        fields = workflow_files.read(text)
    except NoWorkflow as error:
        problem = Problem("import", "malformed", str(error))
        return replace(draft, typed={**draft.typed, "import_text": text}).with_problem(
            problem
        ), None
    if action == "import_version":
        workflow = workflow_to_change_or_404(user, data.get("import_workflow", ""))
        seen = data.get("import_seen", "")[:40]
        return _replaced(replace(of_workflow(workflow), seen=seen), fields), None
    existing = _existing(user, draft, fields) if action == "import" else None
    if existing is None:
        return _replaced(EditorDraft(), fields), None
    typed = {**draft.typed, "import_text": text}
    return replace(draft, typed=typed, focus="import-title"), _offer(existing, fields)


def _replaced(base: EditorDraft, fields: dict[str, Any]) -> EditorDraft:
    """Return `base` with the fields of a file; a workflow that exists keeps its name."""
    return replace(base, **{**fields, **({"name": base.name} if base.workflow else {})})


def _existing(user: User, draft: EditorDraft, fields: dict[str, Any]) -> Workflow | None:
    """Return the workflow of the file's name, or the opened one, that the user may change."""
    if not may_save(user):
        return None
    rows = workflows_for(user)
    named = rows.filter(name=fields["name"]).first() if fields.get("name") else None
    return named or rows.filter(pk=parse_natural_number(draft.workflow) or 0).first()


def _offer(workflow: Workflow, fields: dict[str, Any]) -> dict[str, Any]:
    before = {name: getattr(workflow, name) for name in VERSIONED}
    after = {**before, **{name: fields[name] for name in VERSIONED if name in fields}}
    return {
        "id": workflow.pk,
        "seen": seen_mark(workflow),
        "title": workflow.title,
        "name": workflow.name,
        "url": reverse("reviews:workflow", args=(workflow.pk,)),
        "difference": definition_difference(before, after),
    }
