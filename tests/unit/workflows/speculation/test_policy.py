"""The policy that stops unprofitable speculation, at its limits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.speculation.policy import (
    HIGHEST_THRESHOLD,
    LOWEST_THRESHOLD,
    Tally,
    decisions,
    explores,
    hit_probability,
    is_worthwhile,
    required_probability,
    stopped,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
tallies = st.builds(Tally, st.integers(0, 500), st.integers(0, 500))


@given(tallies)
def test_learned_rates_stay_within_bounds(tally: Tally) -> None:
    assert LOWEST_THRESHOLD <= required_probability("learned", tally) <= HIGHEST_THRESHOLD
    assert 0 < hit_probability(tally) <= 1


@given(tallies)
def test_a_hit_never_hurts_and_a_miss_never_helps(tally: Tally) -> None:
    better, worse = Tally(tally.hits + 1, tally.misses), Tally(tally.hits, tally.misses + 1)
    assert hit_probability(worse) < hit_probability(better) or tally.misses == 0
    assert (
        required_probability("learned", better)
        <= required_probability("learned", tally)
        <= required_probability("learned", worse)
    )


@pytest.mark.parametrize(
    ("confidence", "tally", "worthwhile"),
    [
        (0.7, Tally(0, 0), True),
        ("learned", Tally(0, 0), True),
        (0.7, Tally(0, 2), True),  # too few decisions
        ("learned", Tally(0, 2), True),
        (0.7, Tally(2, 1), True),  # 5/6
        (0.7, Tally(0, 3), False),  # 3/6
        ("learned", Tally(1, 2), False),  # 0.667 against 0.85
        ("learned", Tally(2, 1), True),  # 0.833 against 0.80
        (0.95, Tally(20, 2), False),  # 0.92
        (1.0, Tally(5, 0), True),
    ],
)
def test_known_sequences_give_known_rates(confidence: Any, tally: Tally, worthwhile: bool) -> None:
    assert is_worthwhile(confidence, tally) is worthwhile


@pytest.mark.parametrize(
    ("used", "total", "stops"),
    [(7, 20, True), (8, 20, False), (0, 19, False), (20, 20, False), (0, 20, True)],
)
def test_speculation_stops_below_forty_per_cent_of_the_last_twenty(
    used: int, total: int, stops: bool
) -> None:
    outcomes = [(number < used, NOW - timedelta(minutes=number)) for number in range(total)]
    found = stopped(outcomes)
    assert (found is not None) is stops
    if found:
        assert (found.tally.hits, found.tally.misses) == (used, 20 - used)
        # When the oldest of them is forgotten there are fewer than twenty.
        assert found.until == NOW - timedelta(minutes=19) + timedelta(days=1)


def test_a_decision_counts_once_however_many_results_it_has() -> None:
    rejected = [("first", False, NOW) for _ in range(6)]
    approved = [("second", True, NOW - timedelta(minutes=1))]
    assert decisions(rejected + approved) == [(False, NOW), (True, NOW - timedelta(minutes=1))]
    assert stopped(decisions(rejected * 20)) is None


@pytest.mark.parametrize(("used", "results", "hit"), [(1, 2, True), (1, 3, False), (0, 1, False)])
def test_a_decision_is_a_hit_when_half_of_its_results_are_used(
    used: int, results: int, hit: bool
) -> None:
    assert decisions([("one", n < used, NOW) for n in range(results)]) == [(hit, NOW)]


def test_about_a_tenth_of_the_holds_explore_and_always_the_same_ones() -> None:
    names = [f"{run}-{number}" for run in range(1, 201) for number in range(10)]
    exploring = {name for name in names if explores(name)}
    assert 140 <= len(exploring) <= 260
    assert exploring == {name for name in names if explores(name)}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_share_of_exploring_holds_is_a_setting(settings: Any, share: float) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "speculation_explore": share}
    assert {explores(f"{n}-1") for n in range(200)} == {bool(share)}


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=60),
    st.lists(st.integers(0, 86_399), max_size=60),
)
def test_speculation_resumes_within_a_day_of_hits(
    before: list[tuple[bool, int]], hits: list[int]
) -> None:
    """Whatever happened before, a day in which exploring finds only hits ends every pause."""
    now, day = NOW + timedelta(days=1), timedelta(days=1)
    outcomes = [(hit, NOW - timedelta(seconds=ago)) for hit, ago in before]
    outcomes += [(True, NOW + timedelta(seconds=later)) for later in hits]
    recent = sorted((each for each in outcomes if each[1] > now - day), key=lambda e: e[1])
    assert stopped(recent[::-1][:20]) is None
