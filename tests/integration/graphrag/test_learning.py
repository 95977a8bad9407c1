"""Learning from finished executions: edges, confidence, PageRank; once each, also concurrently."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.db import connection, transaction

from graphrag import learning, prediction
from graphrag.catalogue import ingest
from graphrag.graph import tool_graph
from graphrag.models import LearnedExecution, Tool, ToolDependency, ToolSequence
from graphrag.planning import services as planning_services
from tests.integration.graphrag.conftest import make_tool
from tests.support.learning import learn

A, B, C, D = "t.alpha", "t.beta", "t.gamma", "t.delta"
RUN = [[A], [B], [C]]


class Rollback(Exception):
    """Ends a transaction that shall leave nothing."""


@pytest.fixture
def four(db: None) -> None:
    descriptions = {A: "Collect orders", B: "Check orders", C: "Ship orders", D: "Bill orders"}
    ingest.upsert_tools([make_tool(name, text) for name, text in descriptions.items()])


def edges() -> dict[tuple[str, str], tuple[int, float]]:
    rows = ToolDependency.objects.values_list(
        "from_tool__name", "to_tool__name", "observed_count", "confidence"
    )
    return {(first, second): (count, confidence) for first, second, count, confidence in rows}


def test_the_same_run_twice_gives_two_edges_of_count_two(four: None) -> None:
    intent = "collect orders, then check orders, then ship orders"
    confidences = [planning_services.suggest(intent).confidence]
    ranks = [tool_graph.current().rank(C)]
    for key in ("one", "two"):
        learn(execution_key=key, layers=RUN)
        confidences.append(planning_services.suggest(intent).confidence)
        ranks.append(tool_graph.current().rank(C))
    assert edges() == {(A, B): (2, 0.6), (B, C): (2, 0.6)}
    assert confidences[0] < confidences[1] < confidences[2]
    assert ranks[0] < ranks[1]
    stored = dict(Tool.objects.values_list("name", "pagerank"))
    assert stored[C] > stored[B] > stored[A]
    assert stored[C] == pytest.approx(ranks[2], rel=0.01)


def test_a_second_call_for_one_execution_changes_nothing(four: None) -> None:
    learn(execution_key="one", layers=RUN)
    before = snapshot()
    learn(execution_key="one", layers=[[A], [D]])
    assert len(edges()) == 2
    assert snapshot() == before


def snapshot() -> tuple[object, ...]:
    """Everything that was learned, except tokens and times."""
    rows = LearnedExecution.objects.order_by("execution_key")
    return (
        edges(),
        set(ToolSequence.objects.values_list("last", "before", "next", "count")),
        {name: round(rank, 6) for name, rank in Tool.objects.values_list("name", "pagerank")},
        [(row.execution_key, row.tools, row.edges, row.outcome["edges"]) for row in rows],
        [row.graph_number for row in rows],
    )


def test_runs_learned_together_teach_what_each_teaches_by_itself(four: None) -> None:
    several = {"1": RUN, "2": [[A, "gone.tool"], [B]], "3": [[D]], "4": RUN, "5": [*RUN, [D], [A]]}
    runs = [learning.FinishedRun(execution_key=key, layers=several[key]) for key in several]
    learning.learn_runs(runs[:1])
    alone = None
    with suppress(Rollback), transaction.atomic():
        for key in several:
            learn(execution_key=key, layers=several[key])
        learning.store_ranks()  # each run stores ranks that moved by more than 1 %
        alone = snapshot()
        raise Rollback
    learning.learn_runs(runs)
    assert snapshot() == alone
    ranks = LearnedExecution.objects.get(execution_key="4").outcome["ranks"]
    assert [name for name, _, _ in ranks] == [A, B, C]
    learning.learn_runs(runs)
    assert snapshot() == alone


def test_confidence_grows_by_a_tenth_to_one(four: None) -> None:
    found = []
    for at in range(8):
        learn(execution_key=str(at), edges=[(A, B)])
        found.append(edges()[A, B])
    assert [round(confidence, 6) for _, confidence in found] == [
        0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0,
    ]  # fmt: skip
    assert [count for count, _ in found] == list(range(1, 9))


def test_adjacent_layers_and_data_flow_count_once_each(four: None) -> None:
    learn(execution_key="one", layers=[[A, B], [], [C]], edges=[(A, C), (A, D), (D, D)])
    assert edges().keys() == {(A, C), (B, C), (A, D)}
    assert all(count == 1 for count, _ in edges().values())


def test_unknown_tools_are_left_out(four: None) -> None:
    learn(execution_key="one", layers=[[A], ["gone.tool"], [C]])
    assert edges() == {}
    assert LearnedExecution.objects.get().tools == [A, C]


def test_the_confidence_of_a_prediction_grows_with_evidence(four: None) -> None:
    stated = []
    for at in range(6):
        learn(execution_key=str(at), layers=[[A], [B]])
        (only,) = prediction.predict_next([A])
        assert (only.tool, only.after, only.observed, only.runs) == (B, A, at + 1, at + 1)
        stated.append(only.confidence)
    assert stated == sorted(stated)
    assert stated[0] < 0.7 < stated[-1] < 1
    assert prediction.predict_next([A], above=stated[-1]) == []


def test_a_tool_that_ends_runs_predicts_nothing(four: None) -> None:
    for at in range(4):
        learn(execution_key=str(at), layers=[[A], [B]])
    assert prediction.predict_next([A, B]) == []
    assert prediction.predict_next([]) == prediction.predict_next(["no.body"]) == []


def test_a_run_of_one_tool_lowers_what_follows_it(four: None) -> None:
    for at in range(4):
        learn(execution_key=str(at), layers=[[A], [B]])
    (before,) = prediction.predict_next([A])
    for at in range(4, 8):
        learn(execution_key=str(at), layers=[[A]])
    (after,) = prediction.predict_next([A])
    assert (after.observed, after.runs) == (4, 8)
    assert after.confidence < 0.55 < before.confidence


def test_the_tool_before_the_last_decides(four: None) -> None:
    for at in range(5):
        learn(execution_key=f"{at}", layers=[[A], [C], [D]])
        learn(execution_key=f"other {at}", layers=[[B], [C], [A]])
    assert prediction.predict_next([A, C])[0].tool == D
    assert prediction.predict_next([B, C])[0].tool == A
    first, second = prediction.predict_next([D, C])
    assert first.confidence == second.confidence < 0.5


def test_a_tool_that_runs_again_is_predicted(four: None) -> None:
    for at in range(4):
        learn(execution_key=str(at), layers=[[A], [A], [B]])
    assert prediction.predict_next([A])[0].tool == A
    assert prediction.predict_next([A, A])[0].tool == B


def test_a_disabled_tool_is_not_predicted(four: None) -> None:
    learn(execution_key="one", layers=[[A], [B, C]])
    ingest.set_tool_policy(name=B, enabled=False)
    assert [each.tool for each in prediction.predict_next([A])] == [C]


def test_wide_layers_count_pairs_only(db: None) -> None:
    names = [f"n.t{at}" for at in range(12)]
    ingest.upsert_tools([make_tool(name) for name in names])
    learn(execution_key="wide", layers=[names, names, names])
    rows = ToolSequence.objects
    assert rows.filter(before="").exclude(next="").count() == 144
    assert rows.exclude(next="").exclude(before__in=("", ToolSequence.START)).count() == 0


def test_at_most_three_are_predicted(db: None) -> None:
    names = [f"n.t{at}" for at in range(6)]
    ingest.upsert_tools([make_tool(name) for name in names])
    for key in range(6):
        learn(execution_key=str(key), layers=[names[:1], names[1:]])
    assert len(prediction.predict_next(names[:1])) == 3


def test_a_worker_reloads_only_the_learned_edges(
    four: None, django_assert_num_queries: object
) -> None:
    kept = tool_graph.current()
    assert tool_graph.current() is kept
    learn(execution_key="one", layers=RUN)
    changed = tool_graph.current()
    assert changed.names is kept.names  # grown from the kept one, not read again
    assert changed.edge(A, B) is not None
    assert kept.edge(A, B) is None
    runs = [learning.FinishedRun(execution_key=key, layers=[[A], [B]]) for key in ("two", "three")]
    learning.learn_runs(runs)
    assert tool_graph.current().names is kept.names
    assert tool_graph.current().edge(A, B) == tool_graph.Edge(A, B, 3, 0.7)
    ingest.set_tool_policy(name=B, enabled=False)
    assert B not in tool_graph.current().index
    assert tool_graph.current().edges() == []


def test_a_cache_of_another_history_is_discarded(four: None) -> None:
    """Same numbers, another past: a restored database must not mix with what a worker kept."""
    learn(execution_key="one", layers=[[A], [B]])
    kept = tool_graph.current()
    from graphrag.models import Revision

    row = Revision.objects.get(name="graph")
    LearnedExecution.objects.create(
        execution_key="elsewhere", edges=[[C, D]], graph_number=row.number + 1, graph_before=None
    )
    Revision.objects.filter(name="graph").update(
        number=row.number + 1, token="00000000-0000-4000-8000-000000000001"
    )
    assert tool_graph.current().names is not kept.names


@pytest.mark.django_db(transaction=True)
def test_twenty_calls_at_once_for_one_execution_count_once() -> None:
    ingest.upsert_tools([make_tool(name) for name in (A, B, C)])

    def once(key: str) -> None:
        try:
            learn(execution_key=key, layers=RUN)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(once, ["same"] * 20))
    assert LearnedExecution.objects.count() == 1
    assert edges() == {(A, B): (1, 0.5), (B, C): (1, 0.5)}


@pytest.mark.django_db(transaction=True)
def test_many_executions_at_once_all_count_and_none_deadlocks() -> None:
    ingest.upsert_tools([make_tool(name) for name in (A, B, C)])

    def once(at: int) -> None:
        try:
            learn(execution_key=str(at), layers=RUN if at % 2 else RUN[::-1])
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(once, range(24)))
    assert {pair: count for pair, (count, _) in edges().items()} == {
        (A, B): 12, (B, C): 12, (C, B): 12, (B, A): 12,
    }  # fmt: skip
