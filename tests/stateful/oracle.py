"""The expected result of a plan: a recursive evaluation that shares no code with the engine.

Tasks are told apart by the last word of their tool:

- `value` gives its argument back, `fail` fails for good;
- `flaky` fails its first `failures` attempts, `late` every one of them;
- `ask` gives its argument back once it was granted the host it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workflows.engine.plans.dag import Plan, ToolTask

BAD = frozenset({"FAILED", "REJECTED"})
ESCALATION = "ESCALATION"


@dataclass(frozen=True)
class Outcome:
    """How a task ends.  `output` is what later tasks read."""

    status: str
    skip: str = ""
    output: Any = None
    #: What it was called with, where it was called.
    inputs: Any = None

    @property
    def is_failure(self) -> bool:
        return self.status in BAD or self.skip == "upstream_failed"


@dataclass(frozen=True)
class Verdict:
    """A decision on a task's hold."""

    approved: bool
    edits: Any = None
    #: Whether it changed something; an output may be changed to null.
    edited: bool = False


@dataclass
class Interventions:
    """What people and commands said about one execution."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: By task and phase (BEFORE_EXECUTION, AFTER_EXECUTION or ESCALATION).
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    #: Tasks of layers that a command skipped.
    passed_over: set[str] = field(default_factory=set)
    #: Whether the run was ended before its time: reviews of outputs stay unanswered then.
    aborted: bool = False
    #: How tasks of a fork's parent had ended.
    inherited: Mapping[str, Outcome] = field(default_factory=dict)


class Undecided(Exception):
    """The end of a task depends on a decision that was not made."""


def expected(plan: Plan, interventions: Interventions) -> dict[str, Outcome]:
    """How every task ends whose end is decided; the others are left out."""
    ends: dict[str, Outcome | None] = {}
    for layer in plan.layers():
        for name in layer:
            try:
                ends[name] = _end(plan.by_id[name], interventions, ends)
            except Undecided:
                ends[name] = None
    return {name: end for name, end in ends.items() if end is not None}


def leaves(plan: Plan) -> set[str]:
    """Tasks that no other task waits for."""
    needed = {need for task in plan.tasks for need in task.needs}
    return {task.id for task in plan.tasks} - needed


def status_fits(status: str, plans: Sequence[Plan], ends: Mapping[str, Outcome]) -> bool:
    """Whether an execution that ran to its end may have this status.

    `plans` are its revisions, those of its ancestors included; the last one is the plan it ended
    with.  A failed leaf of that plan fails the run.  A leaf that failed and got a reader later
    leaves both ends open: no change of the plan takes a failure back.
    """
    kept = [leaves(plan) & ends.keys() for plan in plans]
    fails_now = any(ends[name].is_failure for name in kept[-1])
    failed_once = any(ends[name].is_failure for name in set.union(*kept))
    return failed_once if status == "FAILED" else not fails_now


def _end(task: Any, interventions: Interventions, ends: Mapping[str, Outcome | None]) -> Outcome:
    if task.id in interventions.inherited:
        return interventions.inherited[task.id]
    if task.id in interventions.passed_over:
        return Outcome("SKIPPED", "command")
    needs = {}
    for name in task.needs:
        end = ends[name]
        if end is None:
            raise Undecided
        needs[name] = end
    reason = _skip(task, interventions, needs)
    return Outcome("SKIPPED", reason) if reason else _run(task, interventions, needs)


def _skip(task: Any, interventions: Interventions, needs: Mapping[str, Outcome]) -> str:
    if any(each.is_failure for each in needs.values()):
        return "upstream_failed"
    if any(each.skip not in ("", "command") for each in needs.values()):
        return "upstream_skipped"
    if task.when is None:
        return ""
    source, _, key = task.when.partition(".")
    # A condition sees what its task waits for, and nothing else.
    seen = needs[source].output if source in needs else None
    found = interventions.inputs.get(key) if source == "inputs" else seen
    is_empty = found is None or found is False or found in ("", [], {})
    return "condition" if is_empty else ""


def _run(task: ToolTask, interventions: Interventions, needs: Mapping[str, Outcome]) -> Outcome:
    review = task.human_review
    phase = review.trigger_phase.value if review else ""
    values = {key: _value(item, needs) for key, item in task.arguments.items()}
    if phase == "BEFORE_EXECUTION":
        verdict = _verdict(interventions, task, phase)
        if not verdict.approved:
            return _rejected(task)
        values = {**values, **(verdict.edits or {})}
    end = replace(_work(task, interventions, values), inputs=values)
    if phase != "AFTER_EXECUTION" or end.status != "SUCCEEDED":
        return end
    if interventions.aborted and (task.id, phase) not in interventions.verdicts:
        return end
    verdict = _verdict(interventions, task, phase)
    if not verdict.approved:
        return _rejected(task)
    return replace(end, output=verdict.edits) if verdict.edited else end


def _verdict(interventions: Interventions, task: ToolTask, phase: str) -> Verdict:
    verdict = interventions.verdicts.get((task.id, phase))
    if verdict is None:
        raise Undecided
    return verdict


def _rejected(task: ToolTask) -> Outcome:
    review = task.human_review
    if review is not None and review.on_reject == "skip":
        return Outcome("SKIPPED", "reviewer")
    return Outcome("REJECTED")


def _work(task: ToolTask, interventions: Interventions, values: Mapping[str, Any]) -> Outcome:
    kind = task.tool.rpartition(".")[2]
    done = Outcome("SUCCEEDED", "", values.get("value"))
    if kind == "fail" or kind == "late":
        return Outcome("FAILED")
    if kind == "flaky":
        return done if values["failures"] < task.retry.max_attempts else Outcome("FAILED")
    if kind == "ask" and not _verdict(interventions, task, ESCALATION).approved:
        return Outcome("FAILED")
    return done


def _value(item: Any, needs: Mapping[str, Outcome]) -> Any:
    if isinstance(item, dict) and "$from" in item:
        return needs[item["$from"]].output
    if isinstance(item, list):
        return [_value(each, needs) for each in item]
    return item
