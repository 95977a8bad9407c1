"""Charts: every mark inside the picture, axes from zero, gaps where nothing is known."""

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.insights.charts import BAR, HEIGHT, LEFT, TOP, WIDTH, Series, line_chart, shares
from reviews.insights.statistics import Period

values = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=90)


@given(values, st.booleans())
def test_every_mark_is_inside_and_the_axis_begins_at_zero(
    found: list[float | None], is_time: bool
) -> None:
    labels = [str(number) for number in range(len(found))]
    chart = line_chart(labels, [Series("a", "good", found)], words=str, is_time=is_time)
    assert chart.up[0].label in ("0", "0.0")
    assert 2 <= len(chart.up) <= 6
    (line,) = chart.lines
    assert len(line.points) == sum(value is not None for value in found)
    for point in line.points:
        assert LEFT <= point.x <= WIDTH
        assert TOP - 0.1 <= point.y <= HEIGHT
    assert chart.across[-1].label == labels[-1]


def test_a_day_without_a_value_is_a_gap() -> None:
    chart = line_chart(["a", "b", "c"], [Series("x", "good", [1, None, 2])], words=str)
    assert re.sub(r"[\d. ]+", "", chart.lines[0].path) == "MM"


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
def test_a_bar_is_as_long_as_its_share_of_the_longest(counts: list[int]) -> None:
    total = sum(counts)
    parts = shares([("k", "n", count, "") for count in counts], of=total, most=max(total, 1))
    assert len(parts) == sum(count > 0 for count in counts)
    if parts:
        end = parts[-1].x + parts[-1].width
        assert BAR - 1 <= end <= BAR + 2 * len(parts)
        assert all(part.width >= 2 for part in parts)


@pytest.mark.parametrize("days", [7, 30, 90])
def test_a_period_and_its_predecessor_are_adjacent(days: int) -> None:
    period = Period.of(days, today=date(2026, 3, 1))
    assert len(period.days) == days
    assert period.days[-1] == date(2026, 3, 1)
    assert period.before.end == period.start
    assert period.before.length == days
