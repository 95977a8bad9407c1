"""The graph in memory: PageRank against networkx, edges, changes."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag.graph.tool_graph import DAMPING, Edge, ToolGraph

NAMES = [f"s.t{at}" for at in range(8)]
TOOLS = list(enumerate(NAMES))
edge_lists = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(
        lambda pair: pair[0] != pair[1]
    ),
    st.tuples(st.integers(1, 20), st.sampled_from([0.5, 0.7, 1.0])),
    max_size=25,
).map(lambda found: [Edge(*pair, *values) for pair, values in found.items()])


def ranks_of(graph: ToolGraph, restart: dict[str, float] | None = None) -> dict[str, float]:
    return dict(zip(graph.names, graph.pagerank(restart), strict=True))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edge_lists)
def test_pagerank_equals_networkx(edges: list[Edge]) -> None:
    graph = ToolGraph(TOOLS, edges)
    expected = nx.pagerank(graph.networkx(), alpha=DAMPING, tol=1e-9, max_iter=500, weight="weight")
    for name, rank in ranks_of(graph).items():
        assert rank / len(NAMES) == pytest.approx(expected[name], abs=1e-5)


@given(edge_lists, st.sets(st.sampled_from(NAMES), min_size=1))
def test_personalized_pagerank_equals_networkx(edges: list[Edge], start: set[str]) -> None:
    graph = ToolGraph(TOOLS, edges)
    personal = dict.fromkeys(start, 1.0)
    expected = nx.pagerank(
        graph.networkx(),
        alpha=DAMPING,
        personalization=personal,
        tol=1e-9,
        max_iter=500,
        weight="weight",
    )
    for name, rank in ranks_of(graph, personal).items():
        assert rank / len(NAMES) == pytest.approx(expected[name], abs=1e-5)


def test_personalized_ranks_are_cached_per_tools_and_graph() -> None:
    a, b, c = NAMES[:3]
    graph = ToolGraph(TOOLS, [Edge(a, b, 1, 0.5)])
    near_a = graph.ranks_near([a])
    assert graph.ranks_near([a]) is near_a
    assert np.array_equal(graph.ranks_near([c]), graph.pagerank({c: 1.0}))
    assert np.array_equal(graph.ranks_near([a]), near_a)
    changed = graph.with_edges([Edge(a, c, 5, 1.0)])
    assert changed.ranks_near([a])[changed.index[c]] > near_a[graph.index[c]]


@given(edge_lists, edge_lists)
def test_an_updated_graph_equals_a_rebuilt_one(first: list[Edge], more: list[Edge]) -> None:
    before = ToolGraph(TOOLS, first)
    before.pagerank()
    kept = ranks_of(before)
    changed = before.with_edges(more)
    merged = {(edge.from_tool, edge.to_tool): edge for edge in (*first, *more)}
    anew = ToolGraph(TOOLS, merged.values())
    assert np.allclose(changed.pagerank(), anew.pagerank(), atol=1e-4)
    assert {*changed.edges()} == {*anew.edges()}
    assert ranks_of(before) == kept


def test_edges_are_listed_from_both_ends_strongest_first() -> None:
    a, b, c = NAMES[:3]
    graph = ToolGraph(TOOLS, [Edge(a, b, 1, 0.5), Edge(a, c, 4, 0.8), Edge(b, c, 2, 0.6)])
    assert [edge.to_tool for edge in graph.after(a)] == [c, b]
    assert [edge.from_tool for edge in graph.before(c)] == [a, b]
    assert graph.edge(b, a) is None


def test_support_grows_with_count_and_confidence() -> None:
    supports = [Edge("a", "b", n, min(1.0, 0.4 + 0.1 * n)).support for n in range(1, 8)]
    assert supports == sorted(supports)
    assert 0 < supports[0] < supports[-1] <= 1


def test_no_tools_no_ranks_and_an_unknown_tool_is_average() -> None:
    empty = ToolGraph([], [])
    assert empty.pagerank().shape == (0,)
    assert empty.rank("nobody") == 1.0


def test_ranks_are_multiples_of_the_average() -> None:
    graph = ToolGraph(TOOLS, [Edge(name, NAMES[0], 1, 0.5) for name in NAMES[1:]])
    assert float(graph.ranks.mean()) == pytest.approx(1.0)
    assert graph.rank(NAMES[0]) > 3
