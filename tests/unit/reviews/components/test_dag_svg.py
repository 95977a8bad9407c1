"""The picture of a plan: places, edges, lanes, long layers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.components.dag_svg import (
    GAP_X,
    MARGIN,
    MAX_ROWS,
    NODE_HEIGHT,
    NODE_WIDTH,
    DagTask,
    Node,
    Picture,
    layout,
    with_links,
)


def node(picture: Picture, task_id: str) -> Node:
    return next(node for node in picture.nodes if node.id == task_id)


def numbers(path: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?\d+(?:\.\d+)?", path)]


def chain(*ids: str) -> list[list[DagTask]]:
    pairs = zip(ids, (None, *ids), strict=False)
    return [[DagTask(name, depends_on=(before,) if before else ())] for name, before in pairs]


def test_layers_run_from_left_to_right_with_even_steps() -> None:
    picture = layout(chain("a", "b", "c"))

    lefts = [node(picture, name).x for name in "abc"]
    assert lefts == [MARGIN + i * (NODE_WIDTH + GAP_X) for i in range(3)]
    assert picture.width == 2 * MARGIN + 3 * NODE_WIDTH + 2 * GAP_X


def test_an_edge_runs_from_the_right_side_to_the_left_side() -> None:
    picture = layout(chain("a", "b"))

    (edge,) = picture.edges
    a, b = node(picture, "a"), node(picture, "b")
    coordinates = numbers(edge.path)
    assert (edge.source, edge.target) == ("a", "b")
    assert coordinates[:2] == [a.x + NODE_WIDTH, a.y + a.height / 2]
    assert coordinates[-2:] == [b.x, b.y + b.height / 2]


def test_an_edge_is_done_when_its_source_succeeded() -> None:
    layers = [
        [DagTask("a", "SUCCEEDED"), DagTask("b", "FAILED")],
        [DagTask("c", depends_on=("a", "b"))],
    ]

    done = {edge.source: edge.done for edge in layout(layers).edges}

    assert done == {"a": True, "b": False}


def test_an_edge_over_a_layer_does_not_run_behind_its_boxes() -> None:
    layers = [[DagTask("a")], [DagTask("b", depends_on=("a",))], [DagTask("c", depends_on=("a",))]]

    picture = layout(layers)

    b = node(picture, "b")
    long_edge = next(edge for edge in picture.edges if edge.target == "c")
    lane = float(re.findall(r"(-?[\d.]+)H", long_edge.path)[0])
    assert not b.y <= lane <= b.y + NODE_HEIGHT


def test_neighbours_are_ordered_to_avoid_a_crossing() -> None:
    layers = [
        [DagTask("a"), DagTask("b")],
        [DagTask("after_b", depends_on=("b",)), DagTask("after_a", depends_on=("a",))],
    ]

    picture = layout(layers)

    above = node(picture, "a").y < node(picture, "b").y
    assert (node(picture, "after_a").y < node(picture, "after_b").y) is above


def test_a_dependency_that_is_not_drawn_is_left_out() -> None:
    picture = layout([[DagTask("a", depends_on=("gone", "a"))]])

    assert picture.edges == ()


def test_a_long_layer_shows_important_tasks_and_summarizes_the_rest() -> None:
    wide = [DagTask(f"t{i}", "SUCCEEDED") for i in range(20)]
    wide[15] = DagTask("t15", "FAILED")
    wide[17] = DagTask("t17", "PENDING", held=True)

    picture = layout([wide, [DagTask("end", depends_on=tuple(task.id for task in wide))]])

    first = [item for item in picture.nodes if item.x == MARGIN]
    rest = next(item for item in first if item.sums_up)
    assert len(first) == MAX_ROWS
    assert {"t15", "t17"} <= {item.id for item in first}
    assert rest.sums_up == 20 - (MAX_ROWS - 1)
    assert rest.label == f"{rest.sums_up} more"
    assert rest.status == "SUCCEEDED"
    assert rest.note == f"{rest.sums_up} done"
    # One edge for the summed-up tasks together, not one for each.
    assert len(picture.edges) == MAX_ROWS


def test_a_summarized_task_keeps_its_edges() -> None:
    wide = [DagTask(f"t{i}", depends_on=("start",)) for i in range(12)]

    picture = layout([[DagTask("start")], wide, [DagTask("end", depends_on=("t11",))]])

    rest = next(item for item in picture.nodes if item.sums_up)
    assert (rest.id, "end") in {(edge.source, edge.target) for edge in picture.edges}


def test_a_long_name_is_cut_and_kept_in_full_beside_it() -> None:
    name = "count_lines_in_every_file"

    drawn = node(layout([[DagTask(name)]]), name)

    assert drawn.label.endswith("…")
    assert name.startswith(drawn.label[:-1])
    assert drawn.full_label == name


def test_hold_speculation_note_and_link_reach_the_box() -> None:
    task = DagTask("a", note="1.2 s", held=True, speculated=True)

    drawn = node(layout(with_links([[task]], "#task-")), "a")

    assert (drawn.note, drawn.held, drawn.speculated) == ("1.2 s", True, True)
    assert drawn.href == "#task-a"


@pytest.mark.parametrize(
    ("statuses", "progress"),
    [
        (["SUCCEEDED", "RUNNING", "PENDING"], "1 of 3"),
        (["RUNNING", "PENDING"], "0 of 2"),
        (["PENDING", "PENDING"], ""),
        (["", ""], ""),
        (["SUCCEEDED"], ""),
    ],
)
def test_a_layer_of_several_tasks_shows_its_progress(statuses: list[str], progress: str) -> None:
    layer = [DagTask(f"t{i}", status) for i, status in enumerate(statuses)]

    (head,) = layout([layer], current=0).heads

    assert head.progress == progress
    assert head.title == "Layer 1"
    assert head.current


def test_the_graph_has_a_text_alternative() -> None:
    layers = [[DagTask("a", "SUCCEEDED")], [DagTask("b", held=True), DagTask("c")]]

    assert layout(layers).description == "3 tasks in 2 layers; b waiting for review."
    assert layout([[DagTask("a")]]).description == "1 task in 1 layer."


def test_an_empty_plan_is_an_empty_picture() -> None:
    picture = layout([])

    assert (picture.nodes, picture.edges, picture.heads) == ((), (), ())
    assert picture.description == "An empty plan."


@st.composite
def plans(draw: st.DrawFn) -> list[list[DagTask]]:
    layers: list[list[DagTask]] = []
    for depth, width in enumerate(draw(st.lists(st.integers(1, 12), max_size=6))):
        earlier = [task.id for layer in layers for task in layer]
        needs = st.lists(st.sampled_from(earlier), max_size=4) if earlier else st.just([])
        status = st.sampled_from(["", "PENDING", "RUNNING", "SUCCEEDED", "FAILED"])
        layers.append(
            [
                DagTask(f"{depth}.{i}", draw(status), tuple(draw(needs)), held=draw(st.booleans()))
                for i in range(width)
            ]
        )
    return layers


def boxes_overlap(nodes: Sequence[Node]) -> bool:
    return any(
        one.x == other.x and abs(one.y - other.y) < NODE_HEIGHT
        for i, one in enumerate(nodes)
        for other in nodes[i + 1 :]
    )


@given(plans())
def test_any_plan_is_drawn_inside_its_frame_without_overlap(layers: list[list[DagTask]]) -> None:
    picture = layout(layers)

    ids = {item.id for item in picture.nodes}
    assert sum(item.sums_up or 1 for item in picture.nodes) == sum(map(len, layers))
    assert not boxes_overlap(picture.nodes)
    for item in picture.nodes:
        assert 0 <= item.x <= picture.width - NODE_WIDTH
        assert 0 <= item.y <= picture.height - NODE_HEIGHT
    for edge in picture.edges:
        assert {edge.source, edge.target} <= ids
        assert edge.path.startswith("M")
    assert layout(layers) == picture
