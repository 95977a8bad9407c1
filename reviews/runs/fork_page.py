"""The page on which a new run is made from a checkpoint of another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.components import labels as components_labels
from reviews.decisions.edits import inputs_schema
from reviews.decisions.payload_forms import payload_fields
from workflows.common.schemas import FieldError
from workflows.engine.dag import Revision
from workflows.executions.selectors import TaskView, messages_of, tasks_of
from workflows.journal.writer import load_revision
from workflows.models import Checkpoint, Execution

_MAX_NAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a person wants to change: the whole inputs, and texts where JSON is edited."""

    inputs: Any
    inputs_text: str
    context_text: str
    mode: str = "form"
    errors: tuple[FieldError, ...] = ()
    rejected: dict[str, str] | None = None


def unchanged(execution: Execution, checkpoint: Checkpoint, mode: str) -> Draft:
    """Inputs and context as they were; `mode` is form or json."""
    return Draft(
        inputs=execution.inputs,
        inputs_text=pretty(execution.inputs),
        context_text=pretty(checkpoint.context),
        mode=mode,
    )


def fork_context(execution: Execution, checkpoint: Checkpoint, draft: Draft) -> dict[str, Any]:
    """`fork` of the template; the workflow is loaded."""
    url = reverse("reviews:fork", args=(execution.pk, checkpoint.layer))
    revision = load_revision(execution.pk, checkpoint.revision)
    has_form = bool(inputs_schema(execution))
    return {
        "key": "fork",
        "url": url,
        "run_url": reverse("reviews:run", args=(execution.pk,)),
        "number": execution.pk,
        "run_title": components_labels.run_title(execution.title, execution.pk),
        "layer": checkpoint.layer + 1,
        "layers": len(revision.layers),
        "mode": draft.mode,
        "form_url": url if has_form and draft.mode == "json" else "",
        "json_url": f"{url}?as=json" if draft.mode == "form" else "",
        "fields": _fields(execution, draft),
        "inputs_json": draft.inputs_text,
        "context_json": draft.context_text,
        "errors": components_labels.faults(draft.errors),
        **_what_happens(execution, checkpoint, revision),
    }


def _fields(execution: Execution, draft: Draft) -> tuple[Any, ...]:
    if draft.mode == "json":
        return ()
    return payload_fields(
        inputs_schema(execution),
        draft.inputs,
        original=execution.inputs,
        rejected=draft.rejected,
        errors=draft.errors,
    )


def _what_happens(
    execution: Execution, checkpoint: Checkpoint, revision: Revision
) -> dict[str, Any]:
    taken = [task for task in tasks_of(execution) if task.layer <= checkpoint.layer]
    anew = [name for layer in revision.layers[checkpoint.layer + 1 :] for name in layer]
    said = [each for each in messages_of(execution) if each["seq"] <= checkpoint.version]
    return {
        "taken": tuple(_taken(task) for task in taken),
        "anew": _names(anew),
        "reviews": tuple(_reviews(execution, revision, anew)),
        "messages": len(said),
        "revision_words": ""
        if checkpoint.revision == execution.revision
        else _("The plan is the one of that moment; later changes to it are left out."),
    }


def _taken(task: TaskView) -> dict[str, str]:
    return {"id": task.id, "status": task.status}


def _names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    shown = ", ".join(names[:_MAX_NAMES])
    if more <= 0:
        return shown
    text = ngettext("%(names)s and %(n)s more task", "%(names)s and %(n)s more tasks", more)
    return text % {"names": shown, "n": more}


def _reviews(execution: Execution, revision: Revision, names: list[str]) -> Iterator[str]:
    """The decision points behind the checkpoint."""
    for name in names:
        review = revision.plan.by_id[name].human_review
        if review is not None and review.enabled:
            yield f"{name}, {components_labels.phase_words(review.trigger_phase.value)}"
    if execution.policy.get("hil", {}).get("enabled"):
        yield _("each layer that needs a signature")


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)
