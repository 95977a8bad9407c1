"""Where a run of the draft would stop, and for whom; see `workflows.engine.protocol.simulation`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.audit.reveals import task_rules
from reviews.components.reasons import render_reason
from reviews.decisions.edits import inputs_schema, secret_rules
from reviews.decisions.masking import is_marked, masked
from reviews.decisions.rights import deciding_groups
from reviews.templatetags.desk import duration_text
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.dag import CodeTask, Plan
from workflows.engine.policy.policies import Policy, ReviewPolicy, ReviewRules, TriggerPhase
from workflows.engine.protocol.review_rules import rules_for
from workflows.engine.protocol.simulation import Example, Point, Simulation, simulate
from workflows.engine.protocol.state import HoldReason, SkipReason
from workflows.engine.protocol.status import TaskStatus
from workflows.executions import access
from workflows.executions.selectors import tasks_of
from workflows.executions.validation import InvalidRequest, check_plan, check_policy
from workflows.models import Execution, Hold, TaskAttempt
from workflows.review_rules import active_rules

from .policy_form import duration_field
from .run_values import last_run

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from .editor_draft import EditorDraft

#: Plans with more tasks are not simulated, because each change of the form simulates anew.
MAX_TASKS: Final = 200
#: Seconds after which a simulation ends: a plan can have many slow expressions.
_SECONDS: Final = 1.0
_MAX_NAMES: Final = 5
_MAX_KEYS: Final = 50
#: Rows of people and groups that are read; a larger installation gets a lower bound.
_MAX_MEMBERS: Final = 5_000
#: Roles that see who may decide: they may assign any review.
_SEE_PEOPLE: Final = frozenset({access.OPERATOR, access.ADMIN, access.AUDITOR})


@dataclass(frozen=True, slots=True)
class _Data:
    """The example of a simulation, and what is known about the last run.

    `read` are the tasks whose outputs the simulation needs, `masked` the tasks of `read` with
    masked values, and `succeeded` all tasks that ended well. `asked` has the permissions that
    tasks requested.
    """

    example: Example
    run: Execution | None = None
    read: frozenset[str] = frozenset()
    masked: frozenset[str] = frozenset()
    succeeded: frozenset[str] = frozenset()
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def simulation_context(user: User, draft: EditorDraft, wanted: str) -> dict[str, Any] | None:
    """Return the simulation of a draft for the page; None for a draft without tasks.

    `wanted` is the data to use: "run" (the last run, the default) or "inputs".
    """
    if not draft.tasks:
        return None
    run = last_run(user, draft)
    source = "inputs" if run is None or wanted == "inputs" else "run"
    context: dict[str, Any] = {
        "sources": tuple(_sources(run, source)),
        "marks": {},
        "layer_marks": {},
    }
    if len(draft.tasks) > MAX_TASKS:
        text = _("A plan with more than %(n)s tasks is not simulated.") % {"n": MAX_TASKS}
        return {**context, "problem": text}
    try:
        plan, policy = check_plan(draft.plan), check_policy(draft.policy)
    except InvalidRequest:
        return {**context, "problem": _("Fix the errors to see where a run would stop.")}
    policy = policy.model_copy(update={"review_rules": _rules(user, draft)})
    data = _Data(_defaults(draft))
    if run is not None and source == "run":
        data = _data(run, plan, _conditional(plan, policy.review_rules) | _open(draft, plan))
    deadline = monotonic() + _SECONDS
    found = simulate(plan, policy, data.example, is_late=lambda: monotonic() > deadline)
    people = _People(user, policy, found.points, plan)
    rows = tuple(_rows(plan, found, data, people))
    return {
        **context,
        "rows": rows,
        "marks": _marks(rows),
        "layer_marks": _layer_marks(rows),
        "summary": _summary(rows),
        "skipped": tuple(_skipped(found)),
        "outputs": _keys(data.example.outputs),
        "notes": tuple(_notes(policy, data, people)),
    }


def _sources(run: Execution | None, chosen: str) -> Iterator[dict[str, Any]]:
    if run is not None:
        age = max(1.0, (timezone.now() - run.created_at).total_seconds())
        label = _("Run %(run)s, started %(time)s ago") % {
            "run": run.pk,
            "time": duration_text(age),
        }
        yield {"value": "run", "label": label, "chosen": chosen == "run"}
    label = _("The default values of the inputs")
    yield {"value": "inputs", "label": label, "chosen": chosen == "inputs"}


def _rules(user: User, draft: EditorDraft) -> ReviewRules:
    number = parse_natural_number(draft.workflow) or 0
    workflow = access.workflows_for(user).filter(pk=number).first()
    return active_rules.current_rules(workflow) if workflow else ReviewRules()


# --- data -----------------------------------------------------------------------------------------


def _conditional(plan: Plan, rules: ReviewRules) -> frozenset[str]:
    """Return the tasks whose outputs a condition can read; no other output changes the result."""
    found: set[str] = set()
    for task in plan.tasks:
        if task.when is not None:
            found |= task.needs
        review = task.human_review
        if review is None or not review.enabled:
            continue
        phase = review.trigger_phase
        if all(rule.skip_when is None for _name, _version, rule in rules_for(task, phase, rules)):
            continue
        found |= task.reads
        if phase is TriggerPhase.AFTER_EXECUTION:
            found.add(task.id)
    return frozenset(found)


def _open(draft: EditorDraft, plan: Plan) -> frozenset[str]:
    """Return the tasks whose outputs the form of the selected task offers to conditions."""
    task = plan.tasks[draft.selected] if 0 <= draft.selected < len(plan.tasks) else None
    return frozenset({task.id, *task.needs}) if task else frozenset()


def _defaults(draft: EditorDraft) -> Example:
    """Return the default inputs; a copy of another workflow has marks instead of its secrets."""
    inputs = dict(draft.default_inputs)
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in inputs.items()}
    return Example(inputs, hidden=frozenset(name for name in texts if is_marked(texts[name])))


def _data(run: Execution, plan: Plan, read: frozenset[str]) -> _Data:
    inputs = dict(run.inputs)
    shown: Any = masked(inputs, secret_rules(run, inputs_schema(run))).value
    hidden = frozenset(name for name in inputs if shown.get(name) != inputs[name])
    outputs, with_secrets = _outputs(run, plan, read)
    done = TaskAttempt.objects.filter(execution=run, settled=True, status=TaskStatus.SUCCEEDED)
    return _Data(
        Example(inputs, outputs, hidden),
        run,
        read=read,
        masked=with_secrets,
        succeeded=frozenset(done.values_list("task_id", flat=True)),
        asked=_asked(run),
    )


def _outputs(
    run: Execution, plan: Plan, read: frozenset[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the outputs of these tasks without masked values, and the tasks with masked values.

    An output counts for the task of the same id only while the task runs the same target.
    """
    views = [
        each
        for each in tasks_of(run, names=read)
        if each.status == TaskStatus.SUCCEEDED
        and each.id in plan.by_id
        and plan.by_id[each.id].target == each.target
    ]
    rules = task_rules(run, views)
    known = {
        each.id: each.output
        for each in views
        if not masked(each.output, rules[each.id, "output"]).secrets
    }
    return known, frozenset(each.id for each in views) - frozenset(known)


def _asked(run: Execution) -> dict[str, tuple[str, ...]]:
    """Return the permissions that tasks of the run asked for: task id → operations."""
    rows = Hold.objects.filter(execution=run, reason=HoldReason.ESCALATION)
    found: dict[str, list[str]] = {}
    for task_id, payload in rows.values_list("task_id", "payload"):
        operation = payload.get("operation") if isinstance(payload, dict) else None
        found.setdefault(task_id, []).append(str(operation))
    return {name: tuple(sorted(set(each))) for name, each in found.items()}


def _keys(outputs: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the keys of each output that is an object, to offer them in conditions."""
    return {
        name: tuple(output)[:_MAX_KEYS]
        for name, output in outputs.items()
        if isinstance(output, dict)
    }


# --- people ---------------------------------------------------------------------------------------


class _People:
    """The people who may decide, by group; one query."""

    def __init__(self, user: User, policy: Policy, points: Sequence[Point], plan: Plan) -> None:
        lists = [point.groups for point in points] + [policy.replan_review.groups]
        lists += [(task.human_review or ReviewPolicy()).groups for task in plan.tasks]
        named = frozenset(name for groups in lists for name in groups)
        self._user = user
        self._four_eyes = policy.four_eyes
        self._sees_names = bool(access.roles_of(user) & _SEE_PEOPLE)
        self._members = _members(deciding_groups(named, named))

    def deciders(self, groups: Collection[str]) -> list[str]:
        """Return the people who may approve in a run that the user starts."""
        names = {name for group in groups for name in self._members.get(group, ())}
        return sorted(names - {self._user.get_username()} if self._four_eyes else names)

    def excludes_user(self, groups: Collection[str]) -> bool:
        """Whether the user could decide if another person started the run."""
        own = self._user.get_username()
        return self._four_eyes and any(own in self._members.get(group, ()) for group in groups)

    def text(self, groups: Collection[str]) -> str:
        """Return `4 people can decide: ann, bob, …`, with names for those who may see them."""
        names = self.deciders(groups)
        if not names:
            return _("nobody can decide")
        text = ngettext("%(n)s person can decide", "%(n)s people can decide", len(names))
        text %= {"n": len(names)}
        if not self._sees_names:
            return text
        shown = ", ".join(names[:_MAX_NAMES])
        return f"{text}: {shown}, …" if len(names) > _MAX_NAMES else f"{text}: {shown}"


def _members(groups: Collection[str]) -> dict[str, set[str]]:
    people = get_user_model().objects.filter(is_active=True, groups__name__in=groups)
    people = people.exclude(
        pk__in=get_user_model().objects.filter(groups__name=access.AUDITOR).values("pk")
    )
    found: dict[str, set[str]] = {}
    for name, group in people.values_list("username", "groups__name")[:_MAX_MEMBERS]:
        if group in groups:
            found.setdefault(group, set()).add(name)
    return found


# --- rows -----------------------------------------------------------------------------------------

#: Outcome → look, shape and word of the row.
_LOOKS: Final = {
    "stops": ("waiting", "◔", N_("stops")),
    "depends": ("", "?", N_("depends")),
    "sampled": ("", "?", N_("may stop")),
    "may": ("", "?", N_("may stop")),
    "skipped": ("", "\N{EN DASH}", N_("skipped")),
    "asks": ("running", "▶", N_("goes on")),
}
_TIMEOUTS: Final = {
    "reject": N_("after %(time)s without a decision it is rejected"),
    "approve": N_("after %(time)s without a decision it is approved unchanged"),
    "abort": N_("after %(time)s without a decision the run is aborted"),
    "continue": N_("after %(time)s without a decision the run continues"),
}
_REJECTIONS: Final = {
    "abort": N_("a rejection aborts the run"),
    "fail": N_("a rejection fails the task"),
    "skip": N_("a rejection skips the task"),
}


def _rows(plan: Plan, found: Simulation, data: _Data, people: _People) -> Iterator[dict[str, Any]]:
    """Yield the points of the run, and permissions that its tasks may ask for, by layer."""
    rows = [_row(plan, point, people) for point in found.points]
    layer_of = {name: at for at, layer in enumerate(plan.layers()) for name in layer}
    ended = {*found.skipped, *found.failed}
    rows += [
        row
        for task in plan.tasks
        if task.id not in ended and (row := _permission(task, layer_of[task.id], data, people))
    ]
    yield from sorted(rows, key=lambda row: row["layer"])


def _row(plan: Plan, point: Point, people: _People) -> dict[str, Any]:
    look, shape, word = _LOOKS[point.outcome]
    is_open = point.decider == "human" and point.outcome != "skipped"
    few = len(people.deciders(point.groups)) < point.quorum
    return {
        "outcome": point.outcome,
        "look": look,
        "shape": shape,
        "word": _(word),
        "layer": point.layer,
        "task": point.task_id,
        "phase": point.phase or "",
        "title": _title(plan, point),
        "is_approval": point.reason is HoldReason.LAYER_APPROVAL,
        "parts": tuple(_parts(point, people)),
        "warning": _nobody(point, people) if few and is_open else "",
    }


def _title(plan: Plan, point: Point) -> str:
    if point.task_id:
        task = plan.by_id[point.task_id]
        is_before = point.phase is TriggerPhase.BEFORE_EXECUTION
        text = _("Before “%(task)s”") if is_before else _("After “%(task)s”")
        return text % {"task": task.label}
    if point.reason is HoldReason.LAYER_APPROVAL:
        names = ", ".join(plan.layers()[point.layer])
        return _("Before layer %(n)s (%(tasks)s)") % {"n": point.layer + 1, "tasks": names}
    return _("After layer %(n)s") % {"n": point.layer + 1}


def _parts(point: Point, people: _People) -> Iterator[str]:
    """Yield what is to know about a point, each as a part of one line."""
    if point.outcome == "skipped":
        yield _skip_text(point)
        yield from _assumption(point)
        return
    if point.outcome == "depends":
        names = _names_of(point.unknown)
        yield _("depends on %(names)s: the run stops unless the rule skips the review") % {
            "names": names
        }
    if point.outcome == "sampled":
        yield _("the rule skips it, except in %(percent)s %% of the runs") % {
            "percent": f"{(point.sample or 0) * 100:g}"
        }
    yield from _who(point, people)
    if point.timeout_seconds is not None and point.on_timeout in _TIMEOUTS:
        yield _(_TIMEOUTS[point.on_timeout]) % {"time": duration_field(point.timeout_seconds)}
    elif point.decider == "human":
        yield _("no timeout")
    if point.on_reject:
        yield _(_REJECTIONS[point.on_reject])
    if point.reminders:
        times = ", ".join(duration_field(each) for each in point.reminders)
        yield _("reminders after %(times)s") % {"times": times}
    for each in point.escalation:
        names = ", ".join((*each["groups"], *each["tell"]))
        time = duration_field(each["after_seconds"])
        yield _("escalated to %(names)s after %(time)s") % {"names": names, "time": time}
    if point.why is not None:
        yield render_reason(point.why)
    yield from _assumption(point)


def _who(point: Point, people: _People) -> Iterator[str]:
    if point.outcome == "asks":
        yield _("the agent %(agent)s decides at once") % {"agent": point.agent}
    elif point.reason is HoldReason.LAYER_VALIDATION:
        yield _("an operator or an agent continues the run")
    elif point.decider == "agent":
        yield _("an external agent decides")
    else:
        yield _("needs %(n)s of %(groups)s (%(people)s)") % {
            "n": point.quorum,
            "groups": ", ".join(point.groups),
            "people": people.text(point.groups),
        }


def _skip_text(point: Point) -> str:
    if not point.rule:
        return _("skipped by the condition of the task")
    return _("skipped by the rule %(rule)s (version %(version)s)") % {
        "rule": point.rule,
        "version": point.rules_version,
    }


def _assumption(point: Point) -> Iterator[str]:
    if point.assumed:
        yield _("only if the task runs, which depends on %(names)s") % {
            "names": _names_of(point.assumed)
        }


def _names_of(unknown: Iterable[str]) -> str:
    return ", ".join(
        _("the input %(name)s") % {"name": each.removeprefix("inputs.")}
        if each.startswith("inputs.")
        else _("the output of %(task)s") % {"task": each}
        for each in unknown
    )


def _nobody(point: Point, people: _People) -> str:
    """Return why too few people can decide."""
    if people.excludes_user(point.groups):
        return _(
            "Too few people can decide: with four eyes, you cannot approve in a run that you start."
        )
    return _("Too few people can decide. Add people to the groups, or name other groups.")


def _permission(task: Any, layer: int, data: _Data, people: _People) -> dict[str, Any] | None:
    """Return the row of a permission that a task may ask for while it runs; None without one."""
    asked = data.asked.get(task.id, ())
    if asked and data.run is not None:
        text = _("in run %(run)s it asked for more permissions (%(operations)s)") % {
            "run": data.run.pk,
            "operations": ", ".join(asked),
        }
    elif isinstance(task, CodeTask) and task.id not in data.succeeded:
        text = _("its code stops the run if it needs more permissions than it has")
    else:
        return None
    review = task.human_review or ReviewPolicy()
    look, shape, word = _LOOKS["may"]
    who = _("%(groups)s decides (%(people)s)") % {
        "groups": ", ".join(review.groups),
        "people": people.text(review.groups),
    }
    return {
        "outcome": "may",
        "look": look,
        "shape": shape,
        "word": _(word),
        "layer": layer,
        "task": task.id,
        "phase": "",
        "title": _("While “%(task)s” runs") % {"task": task.label},
        "is_approval": False,
        "parts": (text, who),
        "warning": "",
    }


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return the number of places where the run stops and may stop."""
    outcomes = [row["outcome"] for row in rows]
    stops, skipped = outcomes.count("stops"), outcomes.count("skipped")
    may = len(rows) - stops - skipped - outcomes.count("asks")
    words = ngettext("A run stops at %(n)s place.", "A run stops at %(n)s places.", stops)
    parts = [words % {"n": stops} if stops else _("A run does not stop for certain.")]
    if may:
        words = ngettext("It may stop at %(n)s more.", "It may stop at %(n)s more.", may)
        parts.append(words % {"n": may})
    if skipped:
        words = ngettext(
            "%(n)s review is skipped by rules.", "%(n)s reviews are skipped by rules.", skipped
        )
        parts.append(words % {"n": skipped})
    return " ".join(parts)


def _marks(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the mark of each task in the diagram: the most certain outcome counts."""
    order = list(_LOOKS)
    found: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: order.index(row["outcome"])):
        if row["task"] and row["task"] not in found:
            found[row["task"]] = {
                "shape": row["shape"],
                "look": row["look"] or "quiet",
                "text": f"{row['title']}: {row['word']}",
                "side": "after" if row["phase"] == TriggerPhase.AFTER_EXECUTION else "before",
            }
    return found


def _layer_marks(rows: Iterable[dict[str, Any]]) -> dict[int, dict[str, str]]:
    """Return the mark of each layer before which the run stops for an approval."""
    return {
        row["layer"]: {"shape": row["shape"], "look": row["look"], "text": row["title"]}
        for row in rows
        if row["is_approval"]
    }


_SKIPS: Final = {
    SkipReason.CONDITION: N_("%(task)s does not run: its condition is false."),
    SkipReason.UPSTREAM_SKIPPED: N_("%(task)s does not run: a task before it does not run."),
    SkipReason.UPSTREAM_FAILED: N_("%(task)s does not run: a task before it fails."),
}


def _skipped(found: Simulation) -> Iterator[str]:
    for name, reason in found.skipped.items():
        if reason in _SKIPS:
            yield _(_SKIPS[reason]) % {"task": name}
    for name, why in found.failed.items():
        yield _("%(task)s fails: %(error)s") % {"task": name, "error": render_reason(why)}
    if not found.is_complete:
        yield _("The simulation took too long; the rest of the run is not shown.")


def _notes(policy: Policy, data: _Data, people: _People) -> Iterator[str]:
    if policy.replan_review.enabled:
        yield _("A change of the plan stops the run for %(groups)s (%(people)s).") % {
            "groups": ", ".join(policy.replan_review.groups),
            "people": people.text(policy.replan_review.groups),
        }
    if data.masked or data.example.hidden:
        yield _("Masked values count as unknown.")
    unknown = len(data.read) - len(data.example.outputs) - len(data.masked)
    if unknown > 0:
        text = ngettext(
            "%(n)s task that a condition can read has no output in this run: it is unknown.",
            "%(n)s tasks that conditions can read have no output in this run: they are unknown.",
            unknown,
        )
        yield text % {"n": unknown}
