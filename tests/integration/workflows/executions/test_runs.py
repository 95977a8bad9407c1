"""Runs from start to end: data flow, failures, skips, retries, side by side."""

import time

from tests.integration.workflows.conftest import Engine, review, source, value


def tool(name: str, tool: str, **more: object) -> dict[str, object]:
    arguments = more.pop("arguments", {})
    return {"id": name, "type": "tool", "tool": tool, "arguments": arguments, **more}


def test_values_flow_from_task_to_task(engine: Engine) -> None:
    execution = engine.run(
        value("a", {"files": ["x.xml", "y.json"], "nothing": None}),
        value(
            "b", {"xml": source("a", "files[?ends_with(@, '.xml')]"), "n": source("inputs", "n")}
        ),
        inputs={"n": 3},
    )
    assert execution.status == "COMPLETED"
    outputs = dict(execution.attempts.values_list("task_id", "output"))
    assert outputs == {
        "a": {"files": ["x.xml", "y.json"], "nothing": None},
        "b": {"xml": ["x.xml"], "n": 3},
    }


def test_events_are_contiguous_and_the_version_counts_them(engine: Engine) -> None:
    execution = engine.run(value("a"), value("b", depends_on=["a"]))
    seqs = list(execution.events.order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, execution.version + 1))
    assert engine.kinds(execution) == [
        "execution_started",
        "layer_started",
        "task_succeeded",
        "layer_closed",
        "layer_started",
        "task_succeeded",
        "layer_closed",
        "execution_completed",
    ]


def test_a_failure_skips_only_its_dependents(engine: Engine) -> None:
    execution = engine.run(
        tool("bad", "testkit.fail", arguments={"message": "no such thing"}),
        value("after_bad", source("bad")),
        value("far", source("after_bad")),
        value("good"),
        value("after_good", source("good")),
    )
    assert execution.status == "FAILED"
    assert engine.statuses(execution) == {
        "bad": "FAILED",
        "after_bad": "SKIPPED",
        "far": "SKIPPED",
        "good": "SUCCEEDED",
        "after_good": "SUCCEEDED",
    }
    bad = execution.attempts.get(task_id="bad")
    assert bad.error == "no such thing"
    assert execution.attempts.get(task_id="far").skip_reason == "upstream_failed"


def test_a_condition_that_is_false_skips_without_failing(engine: Engine) -> None:
    execution = engine.run(
        value("a", 1, when="inputs.go"),
        value("b", source("a")),
        value("c", 2, when="!(inputs.go)"),
        inputs={"go": False},
    )
    assert execution.status == "COMPLETED"
    assert engine.statuses(execution) == {"a": "SKIPPED", "b": "SKIPPED", "c": "SUCCEEDED"}
    assert execution.attempts.get(task_id="b").skip_reason == "upstream_skipped"


def test_a_condition_that_cannot_be_evaluated_fails_its_task(engine: Engine) -> None:
    execution = engine.run(value("a", when="length(inputs.n)"), value("b"), inputs={"n": 1})
    assert execution.status == "FAILED"
    assert engine.statuses(execution) == {"a": "FAILED", "b": "SUCCEEDED"}


def test_the_tasks_of_a_layer_run_concurrently(engine: Engine) -> None:
    """Each of ten tasks ends only once all ten run: fewer at a time would never end."""
    execution = engine.run(
        *(tool(f"t{n}", "testkit.meets", arguments={"others": 10}) for n in range(10))
    )
    assert execution.status == "COMPLETED", execution.error
    assert len(engine.called(execution, "begin")) == 10


def test_results_of_a_long_layer_are_recorded_as_they_arrive(engine: Engine) -> None:
    execution = engine.run(value("quick"), tool("long", "testkit.slow", arguments={"seconds": 0.5}))
    quick = execution.attempts.get(task_id="quick").created_at
    long = execution.attempts.get(task_id="long").created_at
    assert (long - quick).total_seconds() > 0.2


def test_a_task_that_times_out_fails_and_the_worker_continues(engine: Engine) -> None:
    execution = engine.run(
        tool("late", "testkit.stubborn", arguments={"seconds": 1.5}, timeout_seconds=0.2),
        value("other"),
    )
    late = execution.attempts.get(task_id="late")
    assert late.status == "FAILED"
    assert "did not finish within 0.2 s" in late.error
    assert engine.statuses(execution)["other"] == "SUCCEEDED"


def test_a_retry_waits_its_backoff_without_a_worker(engine: Engine) -> None:
    flaky = tool(
        "flaky",
        "testkit.flaky",
        arguments={"failures": 2},
        retry={"max_attempts": 3, "backoff_seconds": 0.2},
    )
    execution = engine.start(flaky, value("sibling"))
    rested = 0
    deadline = time.monotonic() + 60
    while execution.status not in ("COMPLETED", "FAILED") and time.monotonic() < deadline:
        execution = engine.drive(execution)
        assert execution.lease_until is None
        rested += execution.wake_at is not None
    assert execution.status == "COMPLETED"
    assert rested >= 2
    tries = execution.attempts.filter(task_id="flaky").order_by("attempt")
    assert [(each.attempt, each.status, each.settled) for each in tries] == [
        (1, "FAILED", False),
        (2, "FAILED", False),
        (3, "SUCCEEDED", True),
    ]
    assert engine.called(execution).count("sibling") == 1


def test_a_task_fails_after_its_last_retry(engine: Engine) -> None:
    retry = {"max_attempts": 2, "backoff_seconds": 0}
    execution = engine.run(tool("flaky", "testkit.flaky", arguments={"failures": 5}, retry=retry))
    assert execution.status == "FAILED"
    assert execution.attempts.filter(task_id="flaky").count() == 2


def test_a_permanent_failure_is_not_retried(engine: Engine) -> None:
    retry = {"max_attempts": 3, "backoff_seconds": 0}
    execution = engine.run(tool("bad", "testkit.fail", arguments={"message": "x"}, retry=retry))
    assert execution.attempts.count() == 1


def test_each_layer_makes_a_checkpoint_and_old_ones_are_pruned(engine: Engine) -> None:
    chain = [value("t0")] + [value(f"t{n}", source(f"t{n - 1}")) for n in range(1, 8)]
    execution = engine.run(*chain)
    layers = list(execution.checkpoints.order_by("layer").values_list("layer", flat=True))
    assert layers == [3, 4, 5, 6, 7]


def test_the_control_state_does_not_grow_with_the_plan(engine: Engine) -> None:
    short = engine.run(value("t0"), value("t1", source("t0")))
    chain = [value("t0")] + [value(f"t{n}", source(f"t{n - 1}")) for n in range(1, 60)]
    assert len(str(engine.run(*chain).state)) < len(str(short.state)) + 10


def test_before_and_after_reviews_of_one_layer_wait_together(engine: Engine) -> None:
    execution = engine.run(
        value("plain", 1),
        value("after", 2, **review("AFTER")),
        value("before", 3, **review("BEFORE")),
    )
    assert execution.status == "PAUSED_FOR_REVIEW"
    assert [(each.task_id, each.phase) for each in engine.holds(execution)] == [
        ("after", "AFTER_EXECUTION"),
        ("before", "BEFORE_EXECUTION"),
    ]
    assert sorted(engine.called(execution)) == ["after", "plain"]
