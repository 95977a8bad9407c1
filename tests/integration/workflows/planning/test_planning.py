"""Replans of executions with the tool graph, and learning from executions."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import django_rq
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from graphrag import learning as graph_learning
from graphrag.learning import FinishedRun
from graphrag.models import LearnedExecution, ToolDependency
from tests.integration.workflows.conftest import Engine, review, source, value
from tests.support.processes import ROOT, environment
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.reasons import load_reason
from workflows.executions.jobs import learn
from workflows.executions.recovery import sweep
from workflows.models import Execution, ExecutionEvent, LearningAttempt
from workflows.planning.learning import batched, unlearned

WAITING = {"per_layer_validation": True}


def replan(requirement: str, **context: Any) -> dict[str, Any]:
    return {"kind": "replan", "new_requirement": requirement, "available_context": context}


def listing(name: str = "list") -> dict[str, Any]:
    return value(name, {"files": ["a.xml"]})


def test_a_replan_adds_a_tool_that_runs_beside_its_siblings(engine: Engine) -> None:
    execution = engine.run(listing(), value("json", source("list")), policy=WAITING)
    engine.command(execution, replan("parse XML", text="<a><b>1</b></a>"))
    execution.refresh_from_db()
    revised = execution.events.get(kind="plan_revised")
    (added,) = revised.payload["added"]
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    attempt = execution.attempts.get(task_id=added)
    assert (attempt.layer, attempt.status) == (1, "SUCCEEDED")
    assert execution.attempts.get(task_id="json").layer == 1
    assert execution.context["text"].startswith("<a>")
    assert engine.called(execution) == ["list", "json"]


def test_a_replan_without_a_match_names_the_nearest_tools(engine: Engine) -> None:
    execution = engine.run(listing(), value("json", source("list")), policy=WAITING)
    engine.command(execution, replan("fold the laundry of the neighbour"))
    execution.refresh_from_db()
    failed = execution.events.get(kind="replan_failed")
    assert execution.status == "AWAITING_AGENT"
    assert failed.payload["error_code"] == "nearest_tools"
    reason = load_reason(failed.payload["error_code"], failed.payload["error_params"])
    assert reason is not None
    assert reason.text == failed.payload["error"]
    engine.command(execution, {"kind": "continue"})
    assert engine.drive(execution).status == "COMPLETED"


def test_the_fourth_replan_is_refused(engine: Engine) -> None:
    chain = [listing()] + [
        value(f"t{n}", source("list" if n == 0 else f"t{n - 1}")) for n in range(5)
    ]
    execution = engine.run(*chain, policy=WAITING)
    for wish in (replan("parse XML", text="<a/>"), replan("parse JSON"), replan("list directory")):
        engine.command(execution, wish)
        execution = engine.drive(execution)
    assert engine.kinds(execution).count("plan_revised") == 3
    with pytest.raises(Refused, match="at most 3 times"):
        engine.command(execution, replan("parse XML"))


def two_tools(engine: Engine) -> Execution:
    after = {"id": "b", "type": "tool", "tool": "testkit.effect"}
    return engine.run(value("a", 1), after | {"arguments": {"value": source("a")}})


def test_a_completed_run_is_learned_from_once(engine: Engine) -> None:
    execution = two_tools(engine)
    assert unlearned() == [execution.pk]
    learn(execution.pk)
    learn(execution.pk)
    assert unlearned() == []
    edge = ToolDependency.objects.get(
        from_tool__name="testkit.value", to_tool__name="testkit.effect"
    )
    assert (edge.observed_count, edge.confidence) == (1, 0.5)
    learn(two_tools(engine).pk)
    edge.refresh_from_db()
    assert (edge.observed_count, edge.confidence) == (2, 0.6)


def test_several_runs_are_learned_with_the_statements_of_one(engine: Engine) -> None:
    learn(two_tools(engine).pk)  # connects and imports
    counts = []
    for many in (1, 5):
        ids = [two_tools(engine).pk for _ in range(many)]
        assert unlearned() == ids
        with CaptureQueriesContext(connection) as queries:
            learn(*ids)
        counts.append(len(queries))
        assert unlearned() == []
    assert counts[1] <= counts[0] + 1, counts
    assert ToolDependency.objects.get().observed_count == 7
    assert not LearningAttempt.objects.exists()


def test_a_run_that_cannot_be_learned_does_not_keep_others_from_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, *others = [two_tools(engine).pk for _ in range(3)]

    def learn_runs(runs: list[FinishedRun]) -> object:
        if str(broken) in {run.execution_key for run in runs}:
            raise ValueError("no such tool")
        return graph_learning.learn_runs(runs)

    monkeypatch.setattr("workflows.planning.learning.learn_runs", learn_runs)
    django_rq.get_queue("low").empty()  # what other tests left there
    learn(broken, *others)
    run_low_jobs()
    assert unlearned() == []
    failed = ExecutionEvent.objects.get(kind="graph_update_failed")
    assert (failed.execution_id, failed.payload["error"]) == (broken, "ValueError: no such tool")
    assert ToolDependency.objects.get().observed_count == 2
    assert not LearningAttempt.objects.exists()


def test_several_runs_whose_ranks_cannot_be_computed_have_the_event(
    engine: Engine, monkeypatch: Any
) -> None:
    monkeypatch.setattr("graphrag.learning.RANK_SECONDS", 0)
    ids = [two_tools(engine).pk for _ in range(2)]
    learn(*ids)
    failed = ExecutionEvent.objects.filter(kind="graph_update_failed").order_by("execution_id")
    assert [each.execution_id for each in failed] == ids
    assert ToolDependency.objects.get().observed_count == 2


def test_after_a_killed_worker_each_run_is_learned_alone(engine: Engine) -> None:
    ids = [two_tools(engine).pk for _ in range(3)]
    assert batched(unlearned()) == [ids]
    lose_a_learner(*ids)
    assert batched(unlearned()) == [[each] for each in ids]
    learn(*ids)  # a job from before
    assert unlearned() == ids
    for each in ids:
        learn(each)
    assert unlearned() == []
    assert ToolDependency.objects.get().observed_count == 3
    assert not LearningAttempt.objects.exists()


def test_a_long_waiting_run_is_learned_from_when_it_ends(engine: Engine) -> None:
    held = engine.run(value("a", 1), value("b", source("a"), **review("BEFORE")))
    later = [engine.run(value("a", number)) for number in range(3)]
    engine.decide(engine.holds(held)[0])
    assert engine.drive(held).status == "COMPLETED"
    found = []
    while batch := unlearned(limit=2):
        found += batch
        for execution_id in batch:
            learn(execution_id)
    assert sorted(found) == sorted([held.pk, *(each.pk for each in later)])


def run_low_jobs() -> None:
    call_command(
        "rqworker",
        "low",
        "--burst",
        "--serializer",
        "rq.serializers.JSONSerializer",
        "--worker-class",
        "rq.worker.SimpleWorker",
    )


def test_the_sweeper_enqueues_learning_from_completed_runs(engine: Engine) -> None:
    django_rq.get_queue("low").empty()  # what other tests left there
    execution = two_tools(engine)
    sweep()
    run_low_jobs()
    assert LearnedExecution.objects.filter(execution_key=str(execution.pk)).exists()


def test_a_graph_that_cannot_learn_leaves_the_run_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runs: object) -> None:
        raise OSError("the graph is away")

    monkeypatch.setattr("workflows.planning.learning.learn_runs", broken)
    execution = two_tools(engine)
    learn(execution.pk)
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"
    told = execution.events.get(kind="graph_update_failed")
    assert "the graph is away" in told.payload["error"]
    assert unlearned() == []


#: A worker whose learning kills it, as PageRank over too large a graph would.
KILLED_WHILE_LEARNING = """
import os, signal, sys
import django
django.setup()
from workflows.executions import jobs
from workflows.planning import learning
learning.learn_runs = lambda runs: os.kill(os.getpid(), signal.SIGKILL)
jobs.learn(*map(int, sys.argv[1:]))
"""


def lose_a_learner(*execution_ids: int) -> None:
    """A worker is killed while it learns from the executions, and time passes."""
    command = [sys.executable, "-c", KILLED_WHILE_LEARNING, *map(str, execution_ids)]
    worker = subprocess.run(
        command, cwd=ROOT, env=environment(HOLDPOINT_ROLE="worker"), check=False
    )
    assert worker.returncode == -signal.SIGKILL
    assert unlearned() == []  # for a minute the worker may still be at it
    learn(*execution_ids)
    assert not LearnedExecution.objects.exists()
    LearningAttempt.objects.update(begun_at=Now() - timedelta(minutes=2))


def test_learning_from_a_run_stops_after_three_killed_workers(engine: Engine) -> None:
    execution = two_tools(engine)
    for _ in range(3):
        assert unlearned() == [execution.pk]
        lose_a_learner(execution.pk)
    assert unlearned() == [execution.pk]
    learn(execution.pk)
    failed = execution.events.get(kind="graph_update_failed")
    assert failed.payload["error"] == "3 workers in a row ended while they learned from this run"
    assert unlearned() == []
    assert not LearningAttempt.objects.exists()
    assert not LearnedExecution.objects.exists()
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"


def test_learning_is_retried_after_one_killed_worker(engine: Engine) -> None:
    execution = two_tools(engine)
    lose_a_learner(execution.pk)
    learn(execution.pk)
    assert LearnedExecution.objects.filter(execution_key=str(execution.pk)).exists()
    assert not LearningAttempt.objects.exists()
    assert not execution.events.filter(kind="graph_update_failed").exists()


def test_a_worker_shutdown_during_learning_does_not_count(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(runs: object) -> None:
        raise SystemExit

    execution = two_tools(engine)
    with monkeypatch.context() as patch:
        patch.setattr("workflows.planning.learning.learn_runs", stopped)
        for _ in range(4):
            with pytest.raises(SystemExit):
                learn(execution.pk)
    learn(execution.pk)
    assert LearnedExecution.objects.filter(execution_key=str(execution.pk)).exists()


@pytest.mark.parametrize("status", ["FAILED", "ABORTED"])
def test_a_failed_run_teaches_its_successful_tasks(engine: Engine, status: str) -> None:
    effect = {"id": "b", "type": "tool", "tool": "testkit.effect"} | {
        "arguments": {"value": source("a")}
    }
    if status == "FAILED":
        fails = {"id": "c", "type": "tool", "tool": "testkit.fail"} | {
            "arguments": {"message": "no"},
            "depends_on": ["b"],
        }
        execution = engine.run(value("a", 1), effect, fails)
    else:
        execution = engine.run(value("a", 1), effect, value("c", source("b"), **review("BEFORE")))
        engine.command(execution, {"kind": "abort", "reason": "enough"})
        execution = engine.drive(execution)
    assert execution.status == status
    assert unlearned() == [execution.pk]
    learn(execution.pk)
    found = ToolDependency.objects.values_list("from_tool__name", "to_tool__name")
    assert list(found) == [("testkit.value", "testkit.effect")]
    assert unlearned() == []


def test_a_run_in_which_nothing_succeeded_teaches_nothing(engine: Engine) -> None:
    fails = {"id": "a", "type": "tool", "tool": "testkit.fail", "arguments": {"message": "no"}}
    assert engine.run(fails).status == "FAILED"
    assert unlearned() == []


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Another session holds the table."""
    other = connection.copy()
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        other.rollback()
        other.close()


def test_a_statement_of_learning_that_takes_too_long_is_an_event(
    engine: Engine, monkeypatch: Any
) -> None:
    """Somebody else holds the edges locked for longer than learning may wait."""
    learn(two_tools(engine).pk)
    monkeypatch.setattr("graphrag.learning.STATEMENT_SECONDS", 0.1)
    execution = two_tools(engine)
    with locked("graphrag_tooldependency"):
        learn(execution.pk)
    error = execution.events.get(kind="graph_update_failed").payload["error"]
    assert "statement timeout" in error
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"
    assert ToolDependency.objects.get().observed_count == 1


def test_a_pagerank_that_takes_too_long_is_an_event(engine: Engine, monkeypatch: Any) -> None:
    monkeypatch.setattr("graphrag.learning.RANK_SECONDS", 0)
    execution = two_tools(engine)
    learn(execution.pk)
    error = execution.events.get(kind="graph_update_failed").payload["error"]
    assert error == "TimeoutError: PageRank took longer than 0 s"
    assert ToolDependency.objects.get().observed_count == 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        assert cursor.fetchone() == ("0",)
