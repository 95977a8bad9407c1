"""How well an intent of several steps becomes a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import calibration, intents, plans, replanning, services, step_tasks
from graphrag.planning.draft import Considered
from graphrag.planning.plans import PlanDict
from tests.evaluation.calibration import Choosing

Step = Mapping[str, Any]
"""``tools`` (any one is right), ``args`` (literals), ``from`` (argument -> step), ``after``."""


@dataclass(slots=True)
class Tally:
    """How many of the wanted things the plans have: name -> (right, wanted)."""

    counts: dict[str, list[int]] = field(default_factory=dict)

    def add(self, name: str, right: int, wanted: int) -> None:
        """Count ``right`` of ``wanted``."""
        count = self.counts.setdefault(name, [0, 0])
        count[0] += right
        count[1] += wanted

    def lines(self) -> Iterator[str]:
        """Yield one line for each thing that was counted."""
        for name, (right, wanted) in self.counts.items():
            share = f"{right / wanted:.2f}" if wanted else ""
            yield f"  {name:44}{right:4} of {wanted:4}{share:>7}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The plan for one intent, and whether it is right in everything; no plan states None."""

    row: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    stated: float | None
    is_right: bool


Planned = tuple[PlanDict | None, float, bool]
"""A plan, the stated probability that it is right, and whether something is asked for."""

FILES = ("intents.json", "plans_more.json", "plans_at_work.json")
"""The files of labelled intents of several steps. The rows of the last list in ``missing`` the
parts of the intent that no tool can do; a right plan has no task for them.
"""

MISSES = ("not split", "not among the candidates", "not chosen", "below the threshold")
"""Why a step has no right tool."""


def halves() -> dict[str, list[Mapping[str, Any]]]:
    """Return the intents, split by server: the half that is fitted on, and the other."""
    rows = [row for name in FILES for row in _rows(name)]
    return {
        "fitting half": [row for row in rows if row.get("half") != "held out"],
        "held-out half": [row for row in rows if row.get("half") == "held out"],
    }


def _rows(name: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = json.loads(Path(__file__).with_name(name).read_text())["multi"]
    return found


def wrong_labels(rows: Sequence[Mapping[str, Any]], records: Sequence[ToolRecord]) -> list[str]:
    """Return the tools and parameters of labels that the catalogue lacks."""
    known = {record.name: record.parameters for record in records}
    return [
        f"{row['intent']!r}: {name}"
        for row in rows
        for step in row["steps"]
        for name in _unknown(step, known)
    ]


def _unknown(step: Step, known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a step's labels that are not in the catalogue; each parameter is of one tool."""
    yield from (tool for tool in step["tools"] if tool not in known)
    parameters = {name for tool in step["tools"] for name in known.get(tool, ())}
    for name in (*step["args"], *step["from"]):
        if name not in parameters:
            yield f"{step['tools'][0]}, parameter {name}"


def suggested(row: Mapping[str, Any]) -> Planned:
    """Return the suggested plan for an intent."""
    found = services.suggest(row["intent"])
    return found.plan, found.confidence, bool(found.missing_inputs or found.questions)


def replanned(row: Mapping[str, Any]) -> Planned:
    """Return the plan whose first task is done, changed for the rest of the intent."""
    _, *rest = intents.steps(row["intent"])
    done = {
        "id": "done",
        "type": "tool",
        "tool": row["steps"][0]["tools"][0],
        "arguments": row["steps"][0]["args"],
    }
    requirement = ". ".join(step.text for step in rest)
    found = replanning.replan({"tasks": [done]}, ["done"], requirement)
    return found.plan, found.confidence, bool(found.missing_inputs or found.questions)


def can_be_replanned(row: Mapping[str, Any]) -> bool:
    """Whether the text has a part of its own for each step."""
    return len(intents.steps(row["intent"])) == len(row["steps"])


def measure(
    rows: Sequence[Mapping[str, Any]], plan: Callable[[Mapping[str, Any]], Planned] = suggested
) -> tuple[Tally, list[Measured]]:
    """Plan each intent, and count what is right."""
    tally, results = Tally(), []
    for row in rows:
        made, confidence, asks = plan(row)
        tasks = plans.tasks_of(made) if made else {}
        right = _compare(tally, row["steps"], tasks, asks=asks)
        if row.get("missing"):
            tally.add("plans without what no tool can do", len(tasks) <= len(row["steps"]), 1)
        if plan is suggested:
            _explain(tally, row, tasks)
        results.append(Measured(row, tasks, confidence if made else None, right))
    return tally, results


def table(
    rows: Sequence[Mapping[str, Any]], plan: Callable[[Mapping[str, Any]], Planned] = suggested
) -> Iterator[str]:
    """Plan each intent, and yield the lines of the table."""
    tally, results = measure(rows, plan)
    yield from tally.lines()
    stated = [(each.stated, each.is_right) for each in results if each.stated is not None]
    errors = np.square([confidence - right for confidence, right in stated])
    yield f"  {'Brier score of the stated confidence':44}{errors.mean():20.2f}"
    yield f"  {'its standard error':44}{errors.std() / sqrt(len(errors)):20.2f}"


def _compare(
    tally: Tally, steps: Sequence[Step], tasks: Mapping[str, Mapping[str, Any]], *, asks: bool
) -> bool:
    found = _matched(steps, tasks)
    tally.add("steps with a right tool", len(found), len(steps))
    right_set = len(found) == len(steps) == len(tasks)
    tally.add("plans with just the right tools", right_set, 1)
    order = [(before, at) for at, step in enumerate(steps) for before in step["after"]]
    order += [(source, at) for at, step in enumerate(steps) for source in step["from"].values()]
    orders = [_follows(tasks, found.get(at), found.get(before)) for before, at in order]
    tally.add("pairs in the right order", sum(orders), len(order))
    references = [
        at in found and _refers(tasks[found[at]], name, found.get(source))
        for at, step in enumerate(steps)
        for name, source in step["from"].items()
    ]
    tally.add("arguments from the right earlier task", sum(references), len(references))
    literals = [
        at in found and _arguments(tasks[found[at]]).get(name) == value
        for at, step in enumerate(steps)
        for name, value in step["args"].items()
    ]
    tally.add("literals in the right argument", sum(literals), len(literals))
    right = right_set and all(orders) and all(references) and all(literals)
    tally.add("plans right in everything", right, 1)
    tally.add("plans right, nothing left to ask", right and not asks, 1)
    tally.add("plans wrong that ask nothing", bool(tasks) and not (right or asks), 1)
    return right


def _explain(tally: Tally, row: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """Count why the missed steps have no right tool."""
    steps = row["steps"]
    missed = [at for at in range(len(steps)) if at not in _matched(steps, tasks)]
    considered = services.drafted(row["intent"], {}).considered if missed else []
    reasons = [_reason(steps, at, considered) for at in missed]
    for reason in MISSES:
        tally.add(f"steps missed, {reason}", reasons.count(reason), len(steps))


def _reason(steps: Sequence[Step], at: int, considered: Sequence[Considered]) -> str:
    """Return one of MISSES for a step; without a step of its own in the text, any may have it."""
    aligned = len(steps) == len(considered)
    for each in considered[at : at + 1] if aligned else considered:
        if any(tool in each.signals for tool in steps[at]["tools"]):
            return "not chosen" if each.task else "below the threshold"
    return "not among the candidates" if aligned else "not split"


def _matched(steps: Sequence[Step], tasks: Mapping[str, Mapping[str, Any]]) -> dict[int, str]:
    """Return step -> id of the first task with one of its tools; no task counts twice."""
    found: dict[int, str] = {}
    for at, step in enumerate(steps):
        for name, task in tasks.items():
            if plans.tool_name(task) in step["tools"] and name not in found.values():
                found[at] = name
                break
    return found


def _follows(
    tasks: Mapping[str, Mapping[str, Any]], later: str | None, earlier: str | None
) -> bool:
    if later is None or earlier is None:
        return False
    seen: set[str] = set()
    pending: Collection[str] = {later}
    while pending:
        seen |= set(pending)
        pending = {name for each in pending for name in plans.dependencies(tasks[each])} - seen
    return earlier in seen and earlier != later


def _arguments(task: Mapping[str, Any]) -> Mapping[str, Any]:
    found = task.get("arguments")
    return found if isinstance(found, Mapping) else {}


def _refers(task: Mapping[str, Any], argument: str, source: str | None) -> bool:
    return source is not None and source in plans.references(_arguments(task).get(argument))


Observed = tuple[list[tuple[float, ...]], list[bool]]
"""Features, and whether what they describe was right."""


def observed_tasks(rows: Sequence[Mapping[str, Any]]) -> Observed:
    """Return the features of every task, and whether its tool is one of those wanted."""
    features, right = [], []
    for row in rows:
        draft = services.drafted(row["intent"], {})
        tasks = plans.tasks_of({"tasks": draft.tasks})
        found = set(_matched(row["steps"], tasks).values())
        for name, each in draft.features.items():
            features.append(each)
            right.append(name in found)
    return features, right


def observed_plans(rows: Sequence[Mapping[str, Any]], task_weights: Sequence[float]) -> Observed:
    """Return the features of every plan, and whether it is right in everything."""
    features, right = [], []
    for row in rows:
        draft = services.drafted(row["intent"], {})
        if draft.tasks:
            tasks = plans.tasks_of({"tasks": draft.tasks})
            stated = [calibration.probability(task_weights, f) for f in draft.features.values()]
            features.append(step_tasks.plan_features(draft, stated))
            right.append(_compare(Tally(), row["steps"], tasks, asks=False))
    return features, right


def observed_choices(rows: Sequence[Mapping[str, Any]]) -> list[Choosing]:
    """Return the steps that the text has a part for, with a right tool among the candidates."""
    found = []
    for row in rows:
        considered = services.drafted(row["intent"], {}).considered
        if len(considered) != len(row["steps"]):
            continue
        for step, each in zip(row["steps"], considered, strict=True):
            right = np.array([tool in step["tools"] for tool in each.signals])
            if right.any():
                server = step["tools"][0].partition(".")[0]
                found.append(Choosing(server, np.array(list(each.signals.values())), right))
    return found
