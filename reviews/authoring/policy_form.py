"""The form of the review policy of one task, and of a workflow.

Each field is a field of the engine's models, by its path; the models validate the values.  A
field that did not change keeps its value as it is written, and a default value is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import Count, Q
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy
from django.utils.translation import ngettext

from workflows.agents import agent_names
from workflows.calendars.services import calendar_names
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.engine.policy.permissions import NAMED
from workflows.engine.policy.policies import Policy, ReviewPolicy
from workflows.engine.policy.reminder_schedule import MAX_ENTRIES
from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.executions import access
from workflows.executions.validation import InvalidRequest, PolicyFloor

from . import rule_rows
from .fields import review_phase
from .planner_draft import pretty

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import QueryDict

Kind = Literal[
    "choice", "switch", "number", "duration", "share", "confidence", "text", "groups", "lines",
    "rows", "json",
]  # fmt: skip
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(s|min|h|d)?")
_MAX_TEXT: Final = 100_000
#: The confidence of speculation that is taken from past results.
_LEARNED: Final = "learned"
Text = str | Promise


@dataclass(frozen=True, slots=True)
class Setting:
    """One field: its path in the policy, label, kind, hint, and the options of a choice."""

    path: str
    label: Text
    kind: Kind
    hint: Text = ""
    options: tuple[tuple[str, Text], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.path.split("."))


@dataclass(frozen=True, slots=True)
class Timers:
    """The path of a section with lists of reminders and escalation steps.

    `inherits`: a section without lists of its own uses the workflow's lists.
    """

    path: str
    inherits: bool = True


_TIMEOUT_HINT = lazy("Such as 30 min, 4 h or 2 d. Empty: no timeout.")
_PASSES = (
    ("reject", lazy("reject")),
    ("approve", lazy("approve unchanged")),
    ("keep_waiting", lazy("keep waiting")),
)
_GROUPS_LABEL = lazy("Groups that decide")
_QUORUM_LABEL = lazy("Approvals needed")
_TIMEOUT_LABEL = lazy("Timeout")
_ON_TIMEOUT_LABEL = lazy("After the timeout")
_INSTRUCTIONS_LABEL = lazy("Instructions for reviewers")

#: The fields of `human_review`, except the phase and the conditions to skip the review.
REVIEW: Final = (
    Setting("groups", _GROUPS_LABEL, "groups"),
    Setting("quorum", _QUORUM_LABEL, "number"),
    Setting("timeout_seconds", _TIMEOUT_LABEL, "duration", _TIMEOUT_HINT),
    Setting("on_timeout", _ON_TIMEOUT_LABEL, "choice", options=_PASSES),
    Setting(
        "on_reject",
        lazy("After a rejection"),
        "choice",
        options=(
            ("abort", lazy("abort the run")),
            ("fail", lazy("fail the task")),
            ("skip", lazy("skip the task")),
        ),
    ),
    Setting(
        "max_change_requests",
        lazy("Change requests"),
        "number",
        lazy("How many times reviewers may send an output back."),
    ),
    Setting("instructions", _INSTRUCTIONS_LABEL, "text"),
    Setting(
        "always",
        lazy("Never skip this review"),
        "switch",
        lazy("No rule of the task or of the workflow skips it."),
    ),
    Setting(
        "sample",
        lazy("Sample still reviewed (%)"),
        "share",
        lazy("Of the reviews that would be skipped, or of all reviews without a condition."),
    ),
)
REVIEW_TIMERS: Final = Timers("")

LAYERS: Final = (
    Setting("hil.groups", _GROUPS_LABEL, "groups"),
    Setting("hil.timeout_seconds", _TIMEOUT_LABEL, "duration", lazy("Such as 30 min or 4 h.")),
    Setting(
        "hil.on_timeout",
        _ON_TIMEOUT_LABEL,
        "choice",
        options=(("abort", lazy("abort the run")), ("approve", lazy("approve unchanged"))),
    ),
)
REPLANS: Final = (
    Setting("replan_review.groups", _GROUPS_LABEL, "groups"),
    Setting("replan_review.quorum", _QUORUM_LABEL, "number"),
    Setting("replan_review.timeout_seconds", _TIMEOUT_LABEL, "duration", _TIMEOUT_HINT),
    Setting("replan_review.on_timeout", _ON_TIMEOUT_LABEL, "choice", options=_PASSES),
    Setting("replan_review.instructions", _INSTRUCTIONS_LABEL, "text"),
)
AGENTS: Final = (
    Setting("validate_last_layer", lazy("Pause also after the last layer"), "switch"),
    Setting(
        "validation_timeout_seconds",
        lazy("Abort a paused run after"),
        "duration",
        lazy("Such as 4 h. Empty: the limit of this installation."),
    ),
    Setting("ail.enabled", lazy("An agent decides between layers"), "switch"),
    Setting(
        "ail.decision_points",
        lazy("The agent decides"),
        "choice",
        options=(
            ("per_layer", lazy("after each layer")),
            ("on_error", lazy("after a layer with a failed task")),
            ("manual", lazy("only when a message asks it")),
        ),
    ),
    Setting("ail.agent", lazy("Agent"), "choice"),
    Setting(
        "ail.timeout_seconds",
        lazy("Continue without the agent after"),
        "duration",
        lazy("Such as 90 s or 10 min."),
    ),
    Setting(
        "ail.settings",
        lazy("Settings of the agent"),
        "json",
        lazy("A JSON object that the agent reads, such as its rules. Empty: none."),
    ),
)
SPECULATION: Final = (
    Setting(
        "speculation.enabled",
        lazy("Compute likely results while a person decides"),
        "switch",
        lazy("Only tools that read and change nothing."),
    ),
    Setting(
        "speculation.confidence",
        lazy("Confidence that is needed (%)"),
        "confidence",
        lazy("A percentage, or learned: from the results that were used before."),
    ),
    Setting("speculation.max_tasks", lazy("Results of a run at most"), "number"),
)
GENERAL: Final = (
    Setting(
        "four_eyes",
        lazy("Four eyes: people who influenced a run cannot approve in it"),
        "switch",
    ),
    Setting(
        "require_rejection_reason",
        lazy("A rejection needs a reason"),
        "choice",
        options=(("", lazy("on pages")), ("true", lazy("always")), ("false", lazy("never"))),
    ),
    Setting(
        "undo_seconds",
        lazy("A decision can be undone for"),
        "duration",
        lazy("Such as 10 s; 0 s: not at all. Empty: the setting of this installation."),
    ),
    Setting("calendar", lazy("Deadlines count in the business hours of"), "choice"),
    Setting("permission_ceiling", lazy("Highest permission of a task"), "choice"),
    Setting(
        "files",
        lazy("Files"),
        "choice",
        lazy("Runs that share a folder can read and overwrite each other's files."),
        options=(("run", lazy("a folder for each run")), ("workflow", lazy("one for all runs"))),
    ),
    Setting(
        "key_arguments",
        lazy("Arguments shown in the queue"),
        "lines",
        lazy("One per line, at most 4, such as amount or customer.name."),
    ),
    Setting("secrets", lazy("Masked values"), "lines", lazy("One path per line, such as iban.")),
)
#: Anchor, heading, fields and timers of each part of the workflow's form.
SECTIONS: Final = (
    ("layers", lazy("Layer approval: people and timeout"), LAYERS, Timers("hil")),
    ("replans", lazy("Changes of the plan: people and timeout"), REPLANS, Timers("replan_review")),
    ("agents", lazy("Pauses and agents"), AGENTS, None),
    ("speculation", lazy("Precomputed results"), SPECULATION, None),
    ("general", lazy("All reviews of the workflow"), GENERAL, Timers("", inherits=False)),
)
_REMINDERS: Final = (
    ("after_seconds", lazy("after the opening")),
    ("before_seconds", lazy("before the timeout")),
    ("at", lazy("% of the time")),
)


# --- texts of values ------------------------------------------------------------------------------


def duration_field(seconds: Any) -> str:
    """Return seconds as a field shows them, without rounding: `90 s`, `4 h`."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "" if seconds is None else str(seconds)
    for unit, size in reversed(_UNITS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)} {unit}"
    return f"{seconds:g} s" if float(f"{seconds:g}") == seconds else f"{seconds} s"


def read_duration(text: str) -> int | float:
    """Return the seconds of `90 s`, `30 min`, `4 h`, `2 d`, or of a plain number."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(_("enter a time such as 30 min, 4 h or 2 d"))
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    return int(seconds) if seconds.is_integer() else seconds


def _number(text: str) -> int:
    number = parse_natural_number(text.strip())
    if number is None:
        raise ValueError(_("enter a whole number"))
    return number


def _share_field(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value * 100:.10g}"


def _share(text: str) -> float:
    try:
        percent = float(text.strip().removesuffix("%").replace(",", "."))
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        raise ValueError(_("enter a number from 0 to 100"))
    return round(percent / 100, 12)


def _object(text: str) -> dict[str, Any]:
    try:
        value = parse(text)
    except BoundedJSONError as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, dict):
        raise ValueError(_("enter a JSON object"))
    return value


def _choice_field(value: Any) -> str:
    return {None: "", True: "true", False: "false"}.get(value, value) if _hashable(value) else ""


def _hashable(value: Any) -> bool:
    return value is None or isinstance(value, str | bool)


def _text(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\0", "").strip()[:_MAX_TEXT]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in _text(text).split("\n") if line.strip()]


def _lines_field(value: Any) -> str:
    return "\n".join(str(each) for each in value) if isinstance(value, list | tuple) else ""


_SHOWN: Final[Mapping[str, Callable[[Any], str]]] = {
    "choice": _choice_field,
    "number": lambda value: "" if value is None else str(value),
    "duration": duration_field,
    "share": _share_field,
    "confidence": _share_field,
    "json": lambda value: pretty(value) if value else "",
    "text": lambda value: str(value or ""),
    "lines": _lines_field,
}
_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "choice": lambda text: {"true": True, "false": False}.get(text, text),
    "number": _number,
    "duration": read_duration,
    "share": _share,
    "confidence": lambda text: _LEARNED if text.strip().lower() == _LEARNED else _share(text),
    "json": _object,
    "text": _text,
    "lines": _lines,
}


# --- reading the form -----------------------------------------------------------------------------


def _defaults(model: type[Policy] | type[ReviewPolicy]) -> dict[str, Any]:
    return model().model_dump(mode="json")


def _get(values: Mapping[str, Any], keys: Sequence[str], defaults: Mapping[str, Any]) -> Any:
    """Return the value at a path, or its default."""
    value: Any = values
    default: Any = defaults
    for key in keys:
        default = default.get(key) if isinstance(default, dict) else None
        if not isinstance(value, Mapping) or key not in value:
            value = None if value is None else _MISSING
            value = _MISSING
        else:
            value = value[key]
    return default if value is _MISSING else value


_MISSING: Final = object()


def _put(values: dict[str, Any], keys: Sequence[str], value: Any, default: Any) -> dict[str, Any]:
    """Return the values with one changed; a default value and an empty section are left out."""
    first, *rest = keys
    if rest:
        section = values.get(first)
        # `true` and `false` are short for a section with `enabled`.
        section = {"enabled": section} if isinstance(section, bool) else section
        changed = _put(dict(section) if isinstance(section, dict) else {}, rest, value, default)
        return {**values, first: changed} if changed else _without(values, first)
    return _without(values, first) if value == default else {**values, first: value}


def _without(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


class _Posted:
    """Applies the posted fields below `prefix` to the values of a policy."""

    def __init__(
        self, data: QueryDict, prefix: str, values: Mapping[str, Any], defaults: dict[str, Any]
    ) -> None:
        self.values = dict(values)
        self.errors: list[FieldError] = []
        self._data, self._prefix, self._defaults = data, prefix, defaults

    def apply(self, setting: Setting) -> None:
        key = f"{self._prefix}.{setting.path}"
        present = _get(self.values, setting.keys, self._defaults)
        if setting.kind == "switch":
            self._set(setting.keys, self._data.get(key) == "on", present)
        elif setting.kind == "groups":
            self._set(setting.keys, self._data.getlist(key), _list(present))
        elif key in self._data:
            text = self._data.get(key, "").replace("\r\n", "\n")
            if text.strip() == _SHOWN[setting.kind](present).strip():
                return
            try:
                value = _READ[setting.kind](text) if text.strip() else self._empty(setting)
            except ValueError as error:
                self.errors.append(FieldError(key, str(error)))
            else:
                self._set(setting.keys, value, present)

    def _empty(self, setting: Setting) -> Any:
        """Return the value of an empty field: its default, or an empty list or text."""
        return {"text": "", "lines": []}.get(setting.kind, _get({}, setting.keys, self._defaults))

    def _set(self, keys: Sequence[str], value: Any, present: Any) -> None:
        if value != present:
            self.values = _put(self.values, keys, value, _get({}, keys, self._defaults))

    def apply_timers(self, timers: Timers) -> None:
        start = (timers.path,) if timers.path else ()
        for name, read in (("reminders", self._reminders), ("escalation", self._steps)):
            keys = (*start, name)
            key = ".".join((self._prefix, *keys))
            if f"{key}.0.kind" not in self._data and f"{key}.0.after" not in self._data:
                continue
            present = _get(self.values, keys, self._defaults)
            rows = read(key, _list(present))
            own = not timers.inherits or self._data.get(f"{key}.own") == "own"
            self._set(keys, rows if own else None, present)

    def _reminders(self, key: str, present: list[Any]) -> list[Any]:
        found = []
        for number in range(MAX_ENTRIES):
            kind = self._data.get(f"{key}.{number}.kind", "")
            text = self._data.get(f"{key}.{number}.value", "").strip()
            if not text or kind not in dict(_REMINDERS):
                continue
            old = present[number] if number < len(present) else None
            if (kind, text) == _reminder_field(old):
                found.append(old)
                continue
            try:
                found.append({kind: _share(text) if kind == "at" else read_duration(text)})
            except ValueError as error:
                self.errors.append(FieldError(f"{key}.{number}.value", str(error)))
        return found

    def _steps(self, key: str, present: list[Any]) -> list[Any]:
        found = []
        for number in range(MAX_ENTRIES):
            names = ("after", "groups", "tell")
            texts = tuple(self._data.get(f"{key}.{number}.{each}", "").strip() for each in names)
            if not any(texts):
                continue
            old = present[number] if number < len(present) else None
            if texts == _step_field(old):
                found.append(old)
                continue
            try:
                after = read_duration(texts[0])
            except ValueError as error:
                self.errors.append(FieldError(f"{key}.{number}.after", str(error)))
                continue
            groups, tell = (_names(text) for text in texts[1:])
            step = {"after_seconds": after, "groups": groups, "tell": tell}
            found.append({name: value for name, value in step.items() if value})
        return found


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _reminder_field(value: Any) -> tuple[str, str]:
    if isinstance(value, dict):
        for kind, _label in _REMINDERS:
            if value.get(kind) is not None:
                show = _share_field if kind == "at" else duration_field
                return kind, show(value[kind])
    return "after_seconds", ""


def _step_field(value: Any) -> tuple[str, str, str]:
    if not isinstance(value, dict):
        return "", "", ""
    groups, tell = (", ".join(map(str, _list(value.get(name)))) for name in ("groups", "tell"))
    return duration_field(value.get("after_seconds")), groups, tell


def posted_review(
    task: Mapping[str, Any], key: str, data: QueryDict
) -> tuple[dict[str, Any] | None, list[FieldError]]:
    """Return the `human_review` of a task after the posted fields, and fields with an error.

    Without the fields the review does not change.
    """
    written = task.get("human_review")
    prefix = review_key(key)
    if f"{prefix}.trigger_phase" not in data:
        return written, []
    values = dict(written) if isinstance(written, dict) else {}
    posted = _Posted(data, prefix, values, _defaults(ReviewPolicy))
    for setting in REVIEW:
        posted.apply(setting)
    posted.apply_timers(REVIEW_TIMERS)
    condition = f"{prefix}.skip_when"
    present = str(values.get("skip_when") or "")
    try:
        text = rule_rows.posted_expression(data, condition, present)
    except rule_rows.BadRow as error:
        posted.errors.append(FieldError(condition, str(error)))
    else:
        if text != present:
            posted.values = _put(posted.values, ("skip_when",), text or None, None)
    return _with_phase(task, posted.values, data.get(f"{prefix}.trigger_phase", "")), posted.errors


def _with_phase(
    task: Mapping[str, Any], review: dict[str, Any], phase: str
) -> dict[str, Any] | None:
    """Return the review in this phase; one that is off keeps the settings that were made."""
    if phase:
        on = _without(review, "enabled")
        return on if phase == review_phase(task) else {**on, "trigger_phase": phase}
    if not _without(_without(review, "enabled"), "trigger_phase"):
        return None if review_phase(task) else review or None
    return {**review, "enabled": False}


def posted_policy(
    policy: dict[str, Any], data: QueryDict
) -> tuple[dict[str, Any], list[FieldError]]:
    """Return the workflow's policy after the posted fields, and fields with an error."""
    if "policy.shown" not in data:
        return policy, []
    posted = _Posted(data, "policy", policy, _defaults(Policy))
    for _anchor, _heading, settings, timers in SECTIONS:
        for setting in settings:
            posted.apply(setting)
        if timers is not None:
            posted.apply_timers(timers)
    return posted.values, posted.errors


def typed_texts(data: QueryDict, errors: Sequence[FieldError]) -> dict[str, str]:
    """Return what was typed into the fields with an error, rows of conditions included."""
    paths = tuple(each.path for each in errors)
    return {
        name: data.get(name, "")
        for name in data
        if paths and any(name == path or name.startswith(f"{path}.") for path in paths)
    }


def review_key(key: str) -> str:
    """Return the prefix of the fields of a task's review; `key` is that of the task (`t2`)."""
    return f"{key}.human_review"


# --- showing the form -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shown:
    """Makes the contexts of fields below `prefix`."""

    prefix: str
    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    typed: Mapping[str, str]
    groups: Sequence[GroupOption]
    fixed: Mapping[tuple[str, str], str]

    def field(self, setting: Setting) -> dict[str, Any]:
        key = f"{self.prefix}.{setting.path}"
        value = _get(self.values, setting.keys, self.defaults)
        context: dict[str, Any] = {
            "key": key,
            "label": setting.label,
            "kind": setting.kind,
            "hint": setting.hint,
        }
        if setting.kind == "switch":
            fixed = self.fixed.get((setting.path, "false"), "")
            return {**context, "checked": value is True, "fixed": fixed if value is True else ""}
        if setting.kind == "groups":
            return {**context, "groups": tuple(_group_rows(self.groups, _list(value)))}
        text = self.typed.get(key, _SHOWN[setting.kind](value))
        if setting.kind == "choice":
            return {**context, **self._choice(setting, text)}
        return {**context, "text": text}

    def _choice(self, setting: Setting, chosen: str) -> dict[str, Any]:
        options = setting.options or _options_of(setting.path)
        if chosen not in dict(options):
            options = (*options, (chosen, chosen))
        fixed = {value: self.fixed.get((setting.path, value), "") for value, _label in options}
        return {
            "options": tuple(
                {
                    "value": value,
                    "label": label,
                    "chosen": value == chosen,
                    "fixed": bool(fixed[value]) and value != chosen,
                }
                for value, label in options
            ),
            "fixed": next((reason for reason in fixed.values() if reason), ""),
        }

    def timers(self, timers: Timers) -> dict[str, Any]:
        start = (timers.path,) if timers.path else ()
        keys = {name: ".".join((self.prefix, *start, name)) for name in ("reminders", "escalation")}
        lists = {name: _get(self.values, (*start, name), self.defaults) for name in keys}
        return {
            "inherits": timers.inherits,
            "max_rows": MAX_ENTRIES,
            "reminders": {
                "key": keys["reminders"],
                "own": lists["reminders"] is not None,
                "rows": tuple(self._reminder_rows(keys["reminders"], _list(lists["reminders"]))),
            },
            "escalation": {
                "key": keys["escalation"],
                "own": lists["escalation"] is not None,
                "rows": tuple(self._step_rows(keys["escalation"], _list(lists["escalation"]))),
            },
        }

    def _reminder_rows(self, key: str, values: list[Any]) -> Iterator[dict[str, Any]]:
        for number, value in enumerate([*values, None][:MAX_ENTRIES]):
            kind, text = _reminder_field(value)
            row = f"{key}.{number}"
            kind = self.typed.get(f"{row}.kind", kind)
            yield {
                "key": row,
                "number": number + 1,
                "value": self.typed.get(f"{row}.value", text),
                "kinds": tuple(
                    {"value": each, "label": label, "chosen": each == kind}
                    for each, label in _REMINDERS
                ),
            }

    def _step_rows(self, key: str, values: list[Any]) -> Iterator[dict[str, Any]]:
        for number, value in enumerate([*values, None][:MAX_ENTRIES]):
            after, groups, tell = _step_field(value)
            row = f"{key}.{number}"
            yield {
                "key": row,
                "number": number + 1,
                "after": self.typed.get(f"{row}.after", after),
                "groups": groups,
                "tell": tell,
            }


def _options_of(path: str) -> tuple[tuple[str, Text], ...]:
    if path == "calendar":
        default = ("", lazy("the calendar of this installation, if any"))
        return (default, *((name, name) for name in calendar_names()))
    names = sorted(agent_names()) if path == "ail.agent" else NAMED
    return tuple((name, name) for name in names)


@dataclass(frozen=True, slots=True)
class GroupOption:
    """A group that may decide, with the number of its members who may."""

    name: str
    members: int

    @property
    def members_text(self) -> str:
        words = ngettext("%(n)s person can decide", "%(n)s people can decide", self.members)
        return words % {"n": self.members} if self.members else _("nobody can decide")


def deciding_groups() -> tuple[GroupOption, ...]:
    """Return the groups that may decide, by name; one query."""
    auditors = get_user_model().objects.filter(groups__name=access.AUDITOR)
    members = Count("user", filter=Q(user__is_active=True) & ~Q(user__in=auditors), distinct=True)
    rows = Group.objects.exclude(name__in=access.NON_DECIDING_ROLES).annotate(members=members)
    found = rows.order_by("name").values_list("name", "members")[:_MAX_GROUPS]
    return tuple(GroupOption(name, count) for name, count in found)


_MAX_GROUPS: Final = 200


def _group_rows(groups: Sequence[GroupOption], chosen: list[Any]) -> Iterator[dict[str, Any]]:
    names = [str(each) for each in chosen]
    for each in groups:
        yield {"name": each.name, "note": each.members_text, "chosen": each.name in names}
    known = {each.name for each in groups}
    for name in names:
        if name not in known:
            yield {"name": name, "note": _("may not decide or does not exist"), "chosen": True}


def review_context(
    task: Mapping[str, Any],
    key: str,
    typed: Mapping[str, str],
    groups: Sequence[GroupOption],
    *,
    fields: Sequence[str],
) -> dict[str, Any]:
    """Return the form of a task's review; `fields` are paths that conditions may read."""
    written = task.get("human_review")
    values = written if isinstance(written, dict) else {}
    prefix = review_key(key)
    shown = _Shown(prefix, values, _defaults(ReviewPolicy), typed, groups, {})
    phase = review_phase(task)
    return {
        "key": prefix,
        "phases": tuple(
            {"value": value, "label": label, "chosen": value == phase} for value, label in _PHASES
        ),
        "fields": tuple(shown.field(setting) for setting in REVIEW),
        "timers": shown.timers(REVIEW_TIMERS),
        "condition": rule_rows.rows_context(
            f"{prefix}.skip_when",
            str(values.get("skip_when") or ""),
            typed,
            fields=fields,
            modes=skip_modes(),
        ),
    }


_PHASES: Final = (
    ("", lazy("nobody")),
    ("BEFORE_EXECUTION", lazy("before it runs")),
    ("AFTER_EXECUTION", lazy("after it ran")),
)


def skip_modes() -> dict[str, str]:
    """Return the ways to skip a review by a condition."""
    return {
        "": _("never"),
        "all": _("when all conditions hold"),
        "any": _("when any condition holds"),
        "text": _("when a JMESPath expression holds"),
    }


def when_modes() -> dict[str, str]:
    """Return the ways to run a task only under a condition."""
    return {
        "": _("always"),
        "all": _("if all conditions hold"),
        "any": _("if any condition holds"),
        "text": _("if a JMESPath expression holds"),
    }


def policy_context(
    user: User,
    policy: Mapping[str, Any],
    typed: Mapping[str, str],
    groups: Sequence[GroupOption],
    *,
    binds: bool,
) -> dict[str, Any]:
    """Return the form of a workflow's policy.

    `binds`: the user can only start the draft, so the policy of the installation cannot be
    loosened without the permission to do so.
    """
    fixed = loosening_choices(policy) if binds and not access.may_loosen(user) else {}
    shown = _Shown("policy", policy, _defaults(Policy), typed, groups, fixed)
    return {
        "sections": tuple(
            {
                "anchor": anchor,
                "heading": heading,
                "fields": tuple(shown.field(setting) for setting in settings),
                "timers": shown.timers(timers) if timers else None,
            }
            for anchor, heading, settings, timers in SECTIONS
        )
    }


def loosening_choices(policy: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return (path, option) of each choice that this installation does not allow → the reason."""
    floor = PolicyFloor.of(None)
    found = {}
    for path, option, value in _alternatives():
        try:
            changed = floor.overridden_by(_put(dict(policy), path.split("."), value, _MISSING))
        except (ValueError, InvalidRequest):
            continue
        if any(each.path == path and each.loosens for each in floor.changes(changed)):
            found[path, option] = _("Fixed: this installation does not allow a looser setting.")
    return found


def _alternatives() -> Iterator[tuple[str, str, Any]]:
    for _anchor, _heading, settings, _timers in SECTIONS:
        for setting in settings:
            if setting.kind == "switch":
                yield setting.path, "false", False
            elif setting.kind == "choice":
                for option, _label in setting.options or _options_of(setting.path):
                    yield setting.path, option, _READ["choice"](option) if option else None


def _error_places(context: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each part of a form that shows errors of its own."""
    for part in context.get("sections", (context,)):
        yield from part["fields"]
        for name in ("reminders", "escalation") if part["timers"] else ():
            yield part["timers"][name]
            yield from part["timers"][name]["rows"]
        if "condition" in part:
            yield part["condition"]


def slots_of(context: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the fields of `review_context` or `policy_context`."""
    return tuple(place["key"] for place in _error_places(context))


def add_errors(context: Mapping[str, Any], slots: Mapping[str, Sequence[str]]) -> None:
    """Add the errors of each field to the contexts of a form that was just made."""
    for place in _error_places(context):
        place["errors"] = slots[place["key"]]
