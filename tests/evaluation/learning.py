"""How well the next tool of a run is predicted from learned runs, and what they change in plans.

The runs are invented: each workload draws them with transition probabilities of its own. The
product learns some of them and predicts every step of others. A first-order Markov chain over the
same runs is the baseline.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise, product
from statistics import mean

from graphrag import prediction, versioned_cache
from graphrag.catalogue import ingest
from graphrag.models import LearnedExecution, Tool, ToolDependency, ToolSequence
from graphrag.planning import plans, services
from tests.evaluation.catalogue import record
from tests.support.invented_tools import invented_tools
from tests.support.learning import learn

Run = Sequence[Sequence[str]]
"""The tools of a run, layer by layer."""
Predictor = Callable[[Sequence[str]], Sequence[tuple[str, float]]]
"""Tools that ran, the newest last -> up to three tools with their probability, best first."""

TRAINED = (25, 100, 400)
_HELD_OUT = 200
_TOOLS = 40
_BINS = 5


# --- workloads ------------------------------------------------------------------------------------


def workloads(names: Sequence[str], recipes: Sequence[Run]) -> dict[str, Callable[[], Run]]:
    """Return sources of runs over 40 of the tools, and over ``recipes``, plans of real intents."""
    chance = random.Random(7)
    tools = chance.sample(sorted(names), _TOOLS)
    linear = [[[tool] for tool in chance.sample(tools, chance.randint(3, 6))] for _ in range(12)]
    wide = [
        [chance.sample(tools, chance.choice((1, 1, 2, 3))) for _ in range(chance.randint(2, 4))]
        for _ in range(12)
    ]
    return {
        "linear": _recipes(linear, chance, stops=0.05),
        "plans of intents": _recipes(recipes, chance, stops=0.05),
        "parallel layers": _recipes(wide, chance, stops=0.05),
        "branching": _branching(tools, chance),
        "noisy": _noisy(tools, chance),
    }


def _recipes(recipes: Sequence[Run], chance: random.Random, *, stops: float) -> Callable[[], Run]:
    """Fixed plans, some more frequent than others; each layer ends the run with a probability."""
    weights = [1 / rank for rank in range(1, len(recipes) + 1)]

    def draw() -> Run:
        (recipe,) = chance.choices(recipes, weights)
        ended = next((at for at in range(1, len(recipe)) if chance.random() < stops), len(recipe))
        return recipe[:ended]

    return draw


def _branching(tools: Sequence[str], chance: random.Random) -> Callable[[], Run]:
    """The next tool depends on the last two: one of three, or the end."""
    choices: dict[tuple[str, str], list[str]] = defaultdict(lambda: chance.sample(tools, 3))
    starts = tools[:6]

    def draw() -> Run:
        before, last = "", chance.choice(starts)
        names = [last]
        while len(names) < 6 and chance.random() > 0.1:
            (following,) = chance.choices(choices[before, last], (0.75, 0.15, 0.1))
            before, last = last, following
            names.append(last)
        return [[name] for name in names]

    return draw


def _noisy(tools: Sequence[str], chance: random.Random) -> Callable[[], Run]:
    """The next tool depends on the last: one of three, in a quarter of the cases any, or an end."""
    choices = {tool: chance.sample(tools, 3) for tool in tools}

    def draw() -> Run:
        names = [chance.choice(tools[:8])]
        while len(names) < 8 and chance.random() > 0.15:
            usual = chance.choices(choices[names[-1]], (0.6, 0.3, 0.1))[0]
            names.append(usual if chance.random() < 0.75 else chance.choice(tools))
        return [[name] for name in names]

    return draw


# --- prediction -----------------------------------------------------------------------------------


def by_product(done: Sequence[str]) -> list[tuple[str, float]]:
    """Return what the product predicts."""
    return [(each.tool, each.confidence) for each in prediction.predict_next(done)]


class Markov:
    """The baseline: relative frequency of the next tool after the last one."""

    def __init__(self) -> None:
        self._runs: Counter[str] = Counter()
        self._after: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def learn(self, run: Run) -> None:
        """Count each tool, and each pair of tools in consecutive layers."""
        self._runs.update(tool for layer in run for tool in layer)
        for first, second in pairwise(run):
            for one, other in product(first, second):
                self._after[one][other] += 1

    def __call__(self, done: Sequence[str]) -> list[tuple[str, float]]:
        last = done[-1]
        return [(tool, n / self._runs[last]) for tool, n in self._after[last].most_common(3)]


@dataclass(slots=True)
class Quality:
    """Hits among the first one and three, and (stated, observed) of the first and of all."""

    firsts: list[bool] = field(default_factory=list)
    threes: list[bool] = field(default_factory=list)
    best: list[tuple[float, bool]] = field(default_factory=list)
    stated: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, predicted: Sequence[tuple[str, float]], following: Sequence[str]) -> None:
        """Judge one prediction; nothing follows the last layer of a run."""
        right = [(confidence, tool in following) for tool, confidence in predicted]
        self.stated += right
        self.best += right[:1]
        if following:
            self.firsts.append(any(hit for _, hit in right[:1]))
            self.threes.append(any(hit for _, hit in right))

    @property
    def brier(self) -> float:
        """Mean squared difference of the first prediction's stated probability and its outcome."""
        return mean((stated - hit) ** 2 for stated, hit in self.best)

    def reliability(self) -> Iterator[tuple[float, float, int]]:
        """Yield mean stated probability, observed share and count for each fifth of the scale."""
        for at in range(_BINS):
            part = [each for each in self.stated if min(int(each[0] * _BINS), _BINS - 1) == at]
            if part:
                yield mean(stated for stated, _ in part), mean(hit for _, hit in part), len(part)


def judged(predictor: Predictor, runs: Sequence[Run]) -> Quality:
    """Predict after every layer of the runs; equal beginnings are predicted once."""
    quality = Quality()
    predict = cache(predictor)
    for run in runs:
        for at in range(len(run)):
            done = tuple(tool for layer in run[: at + 1] for tool in layer)
            quality.add(predict(done), run[at + 1] if at + 1 < len(run) else ())
    return quality


def predictions(names: Sequence[str], recipes: Sequence[Run]) -> Iterator[str]:
    """Learn runs of every workload, and yield the lines of the tables."""
    yield (
        f"{'':18}{'learned':>8}{'hit@1':>8}{'hit@3':>8}{'Brier':>8}"
        f"{'Markov hit@1':>15}{'hit@3':>8}{'Brier':>8}"
    )
    every: list[Quality] = []
    for label, draw in workloads(names, recipes).items():
        _forget()
        baseline, held_out, learned = Markov(), [draw() for _ in range(_HELD_OUT)], 0
        for size in TRAINED:
            while learned < size:
                run = draw()
                learn(execution_key=f"{label} {learned}", layers=run)
                baseline.learn(run)
                learned += 1
            ours, markov = judged(by_product, held_out), judged(baseline, held_out)
            every.append(ours)
            yield f"{label:18}{size:8}{_figures(ours)}{'':7}{_figures(markov)}"
    yield "stated and observed, all workloads and numbers of learned runs:"
    pooled = Quality(stated=[each for quality in every for each in quality.stated])
    for stated, observed, count in pooled.reliability():
        yield f"  stated {stated:.2f}   observed {observed:.2f}   {count:5} predictions"


def _figures(quality: Quality) -> str:
    return f"{mean(quality.firsts):8.3f}{mean(quality.threes):8.3f}{quality.brier:8.3f}"


def _forget() -> None:
    for model in (ToolSequence, ToolDependency, LearnedExecution):
        model.objects.all().delete()
    versioned_cache.bump("graph")


# --- plans ----------------------------------------------------------------------------------------

_RUNS_LEARNED = 5
"""Runs of each process that are learned."""
_USUAL = 0.8
"""Share of the runs of a process in which the second step concerns the usual subject."""


def plan_accuracy() -> Iterator[str]:
    """Yield how often a plan has the tools of a held-out run, before and after learning.

    The catalogue becomes the invented one. People ask for a second step without its subject; past
    runs show which subject they usually mean.
    """
    tools = invented_tools()
    Tool.objects.all().delete()
    ingest.upsert_tools([record("office", tool) for tool in tools])
    names = [str(tool["name"]) for tool in tools]
    subjects = [name.removeprefix("search_") for name in names if name.startswith("search_")]
    _forget()
    chance = random.Random(11)
    usual = dict(zip(subjects, subjects[1:] + subjects[:1], strict=True))
    held_out = [(subject, _second(subject, usual, chance)) for subject in subjects]
    yield f"{'':18}{'steps right':>14}{'plans right':>14}{'of':>5}"
    yield _accuracy("nothing learned", held_out)
    for at in range(_RUNS_LEARNED):
        for subject in subjects:
            pair = _tools(subject, _second(subject, usual, chance))
            learn(execution_key=f"{subject} {at}", layers=[[tool] for tool in pair])
    yield _accuracy(f"{_RUNS_LEARNED} runs each", held_out)


def _second(subject: str, usual: Mapping[str, str], chance: random.Random) -> str:
    return usual[subject] if chance.random() < _USUAL else chance.choice(sorted(usual))


def _tools(first: str, second: str) -> tuple[str, str]:
    return f"office.search_{first}", f"office.comment_on_{second}"


def _accuracy(label: str, held_out: Sequence[tuple[str, str]]) -> str:
    steps = whole = 0
    for first, second in held_out:
        plan = services.suggest(f"find the {first} about snow, then add a comment").plan
        found = [plans.tool_name(task) for task in plans.tasks_of(plan).values()] if plan else []
        right = [tool in found for tool in _tools(first, second)]
        steps += sum(right)
        whole += all(right) and len(found) == len(right)
    n = len(held_out)
    return f"{label:18}{steps / (2 * n):14.3f}{whole / n:14.3f}{n:5}"
