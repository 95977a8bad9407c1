"""The probability of the next tool, from counts of past runs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from graphrag import prediction
from graphrag.models import ToolSequence
from graphrag.prediction import Followers
from tests.evaluation.learning import Quality, Run, judged, workloads

NAMES = [f"s.tool{at}" for at in range(40)]
Contexts = Mapping[str, Mapping[str, Followers]]


def counted(runs: Sequence[Run]) -> Contexts:
    """Count what ran after each tool, by the tool before it, as ``ToolSequence`` stores it."""
    counts: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for run in runs:
        for at, layer in enumerate(run):
            before = run[at - 1] if at else [ToolSequence.START]
            following = run[at + 1] if at + 1 < len(run) else []
            for last, context, name in product(layer, ["", *before], ["", *following]):
                counts[last][context][name] += 1
    return {
        last: {context: Followers(found) for context, found in contexts.items()}
        for last, contexts in counts.items()
    }


def quality(contexts: Contexts, runs: Sequence[Run]) -> Quality:
    def predicted(done: Sequence[str]) -> list[tuple[str, float]]:
        before = done[-2] if len(done) > 1 else ToolSequence.START
        found = prediction.confidences(contexts.get(done[-1], {}), before)
        return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:3]

    return judged(predicted, runs)


def test_a_stated_probability_is_observed() -> None:
    pooled = Quality()
    for draw in workloads(NAMES, [[["s.tool1"], ["s.tool2"]]]).values():
        contexts = counted([draw() for _ in range(400)])
        pooled.stated += quality(contexts, [draw() for _ in range(200)]).stated
    high = [row for row in pooled.reliability() if row[0] >= 0.6]
    assert [round(stated, 1) for stated, _, _ in high] == [0.7, 0.9]
    for stated, observed, count in high:
        assert count > 300
        assert stated == pytest.approx(observed, abs=0.05)


def test_the_tool_before_the_last_counts_where_it_tells_something() -> None:
    decided = counted([[["a"], ["m"], ["x"]]] * 20 + [[["b"], ["m"], ["y"]]] * 20)
    assert prediction.weight_of_pairs(decided["m"]) > 0.95
    assert prediction.confidences(decided["m"], "a")["x"] > 0.9
    befores = [chr(ord("a") + at % 9) for at in range(90)]
    nothing = counted([[[name], ["m"], ["xyz"[at % 7 % 3]]] for at, name in enumerate(befores)])
    assert prediction.weight_of_pairs(nothing["m"]) < 0.5
    assert prediction.weight_of_pairs(counted([[["a"], ["m"], ["x"]]])["m"]) == 1.0


def test_nothing_is_predicted_without_a_run() -> None:
    assert prediction.confidences({}, "a") == {}
