"""Labels of the fields of a policy and of a workflow, and of their values, where one changes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from reviews.components.json_diffs import Change, Path
from workflows.engine.values.bounded_json import path_text

from .policy_form import REVIEW, SECTIONS, Text, duration_field

#: Section of a policy → its name, where the labels of its fields need one.
_SECTIONS: Final[dict[str, Text]] = {
    "hil": lazy("Layer approval"),
    "replan_review": lazy("Changes of the plan"),
    "speculation": lazy("Precomputed results"),
    "human_review": lazy("Review"),
}
#: Field → its label: those that the form of the policy does not have.
_OTHERS: Final[dict[str, Text]] = {
    "hil.enabled": lazy("enabled"),
    "hil.approval_required": lazy("required before"),
    "replan_review.enabled": lazy("enabled"),
    "per_layer_validation": lazy("Pause after each layer"),
    "business_hours": lazy("Business hours"),
    "review_rules.rules": lazy("Rules that skip reviews"),
    "review_rules.version": lazy("Version of the rules that skip reviews"),
    "human_review.trigger_phase": lazy("before or after the task runs"),
    "human_review.skip_when": lazy("Condition to skip it"),
    **{
        f"{section}{key}": label
        for section in ("", "hil.", "replan_review.", "human_review.")
        for key, label in (("reminders", lazy("Reminders")), ("escalation", lazy("Escalation")))
    },
}
_LABELS: Final[dict[str, Text]] = {
    **{each.path: each.label for _a, _h, fields, _t in SECTIONS for each in fields},
    **{f"human_review.{each.path}": each.label for each in REVIEW},
    **_OTHERS,
}
#: Field → the labels of its values.  The last two fields are not in the form.
_VALUES: Final[dict[str, dict[str, Text]]] = {
    **{each.path: dict(each.options) for _a, _h, fields, _t in SECTIONS for each in fields},
    **{f"human_review.{each.path}": dict(each.options) for each in REVIEW},
    "hil.approval_required": {
        "always": lazy("every layer"),
        "critical_only": lazy("layers that can modify data"),
        "never": lazy("no layer"),
    },
    "human_review.trigger_phase": {
        "BEFORE_EXECUTION": lazy("before it runs"),
        "AFTER_EXECUTION": lazy("after it ran"),
    },
}
#: Field of a workflow → its label.
_DEFINITION: Final[dict[str, Text]] = {
    "name": lazy("Name"),
    "title": lazy("Title"),
    "description": lazy("Description"),
    "enabled": lazy("Enabled"),
    "plan": lazy("Plan"),
    "policy": lazy("Review policy"),
    "inputs_schema": lazy("Inputs"),
    "default_inputs": lazy("Default inputs"),
}
_END: Final = re.compile(r"[.\[]")


def policy_label(path: str) -> str:
    """Return the label of a policy's field: `Layer approval: Timeout` for `hil.timeout_seconds`.

    What lies within a field follows its label; the path of an unknown field is unchanged.
    """
    known = max((each for each in _LABELS if _is_within(path, each)), key=len, default="")
    if not known:
        return path
    section = _SECTIONS.get(known.partition(".")[0]) if "." in known else None
    label = str(_LABELS[known])
    if section:
        label = _("%(section)s: %(field)s") % {"section": section, "field": label}
    return label + path[len(known) :]


def policy_value(path: str, value: Any) -> Any:
    """Return a field's value in words: `layers that can modify data` for `critical_only`."""
    key = str(value).lower() if isinstance(value, bool) else value
    label = _VALUES.get(path, {}).get(key) if isinstance(key, str) else None
    return value if label is None else str(label)


def _is_within(path: str, field: str) -> bool:
    return path == field or bool(path.startswith(field) and _END.match(path, len(field)))


def labelled(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Give the changes of a workflow their labels."""
    named = (replace(each, label=_definition_label(each.path)) for each in changes)
    return tuple(
        _in_words(each, path_text(each.path[1:])) if each.path[:1] == ("policy",) else each
        for each in named
    )


def _in_words(change: Change, path: str) -> Change:
    before, after = (_words(path, each) for each in (change.before, change.after))
    return replace(change, before=before, after=after)


def _words(path: str, value: Any) -> Any:
    if path.endswith("_seconds") and isinstance(value, int | float):
        return duration_field(value)
    return policy_value(path, value)


def _definition_label(path: Path) -> str:
    first, rest = str(path[0]) if path else "", path_text(path[1:])
    if first == "policy" and rest:
        return policy_label(rest)
    known = _DEFINITION.get(first)
    if known is None:
        return ""
    return f"{known}: {rest}" if rest else str(known)


def task_labelled(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Give the changes of a task's review their labels."""
    return tuple(
        _in_words(replace(each, label=policy_label(each.dotted)), each.dotted)
        if each.path[:1] == ("human_review",) and len(each.path) > 1
        else each
        for each in changes
    )
