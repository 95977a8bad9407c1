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
        (0.7, Tally(0, 1), True),  # 3/4
        (0.7, Tally(0, 2), False),  # 3/5
        ("learned", Tally(0, 1), False),  # 0.75 against 0.867
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
