"""The picture around a tool: nothing overlaps, nothing is cut off, heavy edges are thick."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag.graph.svg import BOX, Drawing, Neighbour, Neighbourhood

neighbours = st.lists(
    st.builds(
        Neighbour,
        name=st.text("abcdefghij_.", min_size=3, max_size=200),
        count=st.integers(1, 10_000),
        confidence=st.floats(0.5, 1.0),
        rank=st.floats(0.1, 50.0),
    ),
    max_size=6,
).map(tuple)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=neighbours, after=neighbours)
def test_boxes_stay_inside_and_apart(
    before: tuple[Neighbour, ...], after: tuple[Neighbour, ...]
) -> None:
    around = Neighbourhood("git.git_log", 1.2, before, after)
    for drawing in around.drawings:
        assert len(drawing.boxes) == len(before) + len(after) + 1
        assert len(drawing.curves) == len(before) + len(after)
        assert [box.name for box in drawing.boxes if box.centre] == ["git.git_log"]
        assert all(1 <= curve.stroke <= 6 for curve in drawing.curves)
        _inside(drawing)
        _apart(drawing)


def _inside(drawing: Drawing) -> None:
    for box in drawing.boxes:
        assert 0 <= box.x <= box.x + box.width <= drawing.width
        assert 0 <= box.y <= box.y + BOX <= drawing.height
        assert len(box.label) * 7.3 <= box.width - 12


def _apart(drawing: Drawing) -> None:
    for at, box in enumerate(drawing.boxes):
        for other in drawing.boxes[at + 1 :]:
            beside = box.x + box.width <= other.x or other.x + other.width <= box.x
            assert beside or box.y + BOX <= other.y or other.y + BOX <= box.y


def test_heavier_edges_are_thicker_and_long_names_keep_their_end() -> None:
    often = Neighbour("s.often", 12, 1.0, 1.0)
    once = Neighbour(f"s.{'very_' * 20}long_name", 1, 0.5, 1.0)
    around = Neighbourhood("s.tool", 2.0, (often, once), (), more_before=3)
    first, second = around.drawings[0].curves
    assert first.stroke == pytest.approx(6.0)
    assert second.stroke < 2.0
    box = around.drawings[0].boxes[-1]
    assert box.label.startswith("…")
    assert box.label.endswith("long_name")
    titles = [heading.text for heading in around.drawings[1].headings]
    assert titles == ["Came before (2 of 5)", "Came after: nothing so far"]
    assert "s.often" in around.description
