"""The contract of every Journal in engine.ports, on PostgreSQL and in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import pytest
from django.db.models.functions import Now

from tests.support.actors import actor_named, user_id
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.dag import Plan, Revision
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy, TriggerPhase
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.commands import Abort, UpdateState
from workflows.engine.protocol.evolve import replay
from workflows.engine.protocol.ports import (
    Busy,
    FinishedTask,
    Journal,
    LeaseLost,
    Run,
    StaleVersion,
)
from workflows.engine.protocol.state import (
    ExecutionState,
    HoldReason,
    SkipReason,
    Stage,
    load_state,
)
from workflows.engine.protocol.status import ExecutionStatus, IllegalTransition, TaskStatus
from workflows.journal import writer as django_journal
from workflows.models import Execution, ExecutionEvent, Hold

EPOCH = "2000-01-01T00:00Z"
AFTER = TriggerPhase.AFTER_EXECUTION


class Store(Protocol):
    """A journal with what its tests need beside the port."""

    journal: Journal

    def create(self, plan: Plan, **more: Any) -> str:
        """A new execution; its id."""

    def fork(self, execution_id: str, layer: int) -> str:
        """A fork from the checkpoint of a layer; its id."""

    def queue(self, execution_id: str, command: Any, actor: str) -> None:
        """Leave a command for the worker that holds the lease."""

    def end_lease(self, execution_id: str) -> None:
        """The lease runs out."""

    def state(self, execution_id: str) -> ExecutionState:
        """The stored state."""

    def events(self, execution_id: str) -> list[tuple[int, str, dict[str, Any], str]]:
        """The stored events: seq, kind, payload and actor."""

    def times(self, execution_id: str, hold_id: str) -> tuple[float | None, float | None]:
        """Seconds until an open hold expires, and until its answer cannot be taken back."""


class InMemory:
    def __init__(self) -> None:
        self.journal = MemoryJournal()

    def create(self, plan: Plan, **more: Any) -> str:
        return self.journal.create(plan, **more)

    def fork(self, execution_id: str, layer: int) -> str:
        kept = self.journal.executions[execution_id].checkpoints
        return self.journal.fork(execution_id, next(each for each in kept if each.layer == layer))

    def queue(self, execution_id: str, command: Any, actor: str) -> None:
        self.journal.queue(execution_id, command, actor=actor)

    def end_lease(self, execution_id: str) -> None:
        self.journal.executions[execution_id].lease_until = 0.0

    def state(self, execution_id: str) -> ExecutionState:
        return self.journal.executions[execution_id].state

    def events(self, execution_id: str) -> list[tuple[int, str, dict[str, Any], str]]:
        stored = self.journal.executions[execution_id]
        pairs = zip(stored.events, stored.actors, strict=True)
        return [
            (seq, event.kind, ev.dump_event(event), actor.name)
            for seq, (event, actor) in enumerate(pairs, 1)
        ]

    def times(self, execution_id: str, hold_id: str) -> tuple[float | None, float | None]:
        stored, now = self.journal.executions[execution_id], self.journal.now
        moments = (stored.deadlines.get(hold_id), stored.undo_until.get(hold_id))
        expires, undo = (None if moment is None else moment - now for moment in moments)
        return expires, undo


class OnPostgres:
    def __init__(self) -> None:
        self.journal = django_journal.DjangoJournal("test")

    def create(self, plan: Plan, **more: Any) -> str:
        made = django_journal.create(
            workflow=None,
            plan=plan,
            policy=more.get("policy", Policy()),
            policy_overrides=[],
            inputs=more.get("inputs", {}),
            title="",
            created_by=None,
        )
        return str(made.pk)

    def fork(self, execution_id: str, layer: int) -> str:
        parent = Execution.objects.get(pk=execution_id)
        checkpoint = parent.checkpoints.get(layer=layer)
        fork = django_journal.fork(
            parent=parent,
            checkpoint=checkpoint,
            plan=django_journal.load_revision(parent.pk, checkpoint.revision).plan,
            inputs=parent.inputs,
            context=checkpoint.context,
            policy_overrides=[],
            created_by=None,
        )
        return str(fork.pk)

    def queue(self, execution_id: str, command: Any, actor: str) -> None:
        assert django_journal.queue_command(
            int(execution_id), command, actor=actor_named(actor), source="test"
        )

    def end_lease(self, execution_id: str) -> None:
        Execution.objects.filter(pk=execution_id).update(lease_until=EPOCH)

    def state(self, execution_id: str) -> ExecutionState:
        row = Execution.objects.get(pk=execution_id)
        state = load_state({**row.state, "version": row.version})
        columns = (row.status, row.revision, row.layer)
        assert columns == (state.status.value, state.revision, state.layer)
        return state

    def events(self, execution_id: str) -> list[tuple[int, str, dict[str, Any], str]]:
        rows = ExecutionEvent.objects.filter(execution_id=execution_id).order_by("seq")
        return list(rows.values_list("seq", "kind", "payload", "actor"))

    def times(self, execution_id: str, hold_id: str) -> tuple[float | None, float | None]:
        row = Hold.objects.annotate(now=Now()).get(pk=hold_id, execution_id=execution_id)
        expires_at = row.expires_at if row.status == "OPEN" else None
        expires, undo = (
            None if moment is None else (moment - row.now).total_seconds()
            for moment in (expires_at, row.undo_until)
        )
        return expires, undo


IN_DATABASE = pytest.param(OnPostgres, id="postgres", marks=pytest.mark.django_db(transaction=True))


@pytest.fixture(params=[pytest.param(InMemory, id="memory"), IN_DATABASE])
def store(request: pytest.FixtureRequest) -> Store:
    make: type[Store] = request.param
    return make()


def task(name: str, value: Any = 1) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "kit.value", "arguments": {"value": value}}


#: Task a, then task b, which reads it.
PLAN = parse_plan({"tasks": [task("a"), task("b", {"$from": "a"})]})
STARTED = ev.ExecutionStarted(total_layers=2, total_tasks=2)
FIRST_LAYER = ev.LayerStarted(layer=0, tasks=("a",))
SECOND_LAYER = ev.LayerStarted(layer=1, tasks=("b",))
DONE = ev.TaskSucceeded(
    task_id="a", attempt=1, duration_ms=1, inputs={"value": 1}, output={"n": [1, None, "x"]}
)
OPENING = {
    "layer": 0,
    "payload": {"value": 1},
    "groups": ["reviewer"],
    "target": "kit.value",
    "why": "",
    "instructions": "",
    "critical": False,
}


def message(text: str) -> ev.MessageAdded:
    return ev.MessageAdded(role="user", content=text)


def opened(hold_id: str, **more: Any) -> ev.HoldOpened:
    about = {"reason": HoldReason.NODE_REVIEW, "task_id": "a", "phase": AFTER}
    return ev.HoldOpened(hold_id=hold_id, opening=OPENING, **{**about, **more})


def decided(hold_id: str, decision: ev.Verdict, **more: Any) -> ev.HoldDecided:
    about = {"reason": HoldReason.NODE_REVIEW, "task_id": "a", "phase": AFTER, "resumed": True}
    return ev.HoldDecided(hold_id=hold_id, decision=decision, **{**about, **more})


def write(store: Store, execution_id: str, *events: ev.Event, actor: str = "system") -> None:
    """Record events at rest, in one step."""
    with store.journal.open(execution_id, expected_version=None) as run:
        with run.acting_as(actor_named(actor), "test"):
            run.record(*events)
        run.commit()


def finished_tasks(store: Store, execution_id: str, *names: str) -> Mapping[str, FinishedTask]:
    """How tasks ended, read anew."""
    with store.journal.open(execution_id, expected_version=None) as run:
        return run.finished_tasks(names)


def replayed(store: Store, execution_id: str) -> ExecutionState:
    """The state that the stored events add up to."""
    return replay(
        ev.load_event(kind, payload) for _, kind, payload, _ in store.events(execution_id)
    )


def contents(store: Store, execution_id: str) -> list[str]:
    """The stored messages."""
    rows = store.events(execution_id)
    return [payload["content"] for _, kind, payload, _ in rows if kind == "message_added"]


def watched(run: Run, seconds: float = 30.0) -> bool:
    """Return what `heartbeat` returns once it reads the lease again."""
    end = time.monotonic() + seconds
    while not run.heartbeat():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- what is written is what is read --------------------------------------------------------------


def test_a_new_execution_has_its_plan_policy_and_inputs_and_no_events(store: Store) -> None:
    policy = Policy(undo_seconds=7)
    new = store.create(PLAN, policy=policy, inputs={"n": [1, None]})
    with store.journal.open(new, expected_version=0) as run:
        assert run.execution_id == new
        assert run.state == ExecutionState()
        assert run.revision == Revision.first(PLAN)
        assert (run.policy, run.inputs, run.context) == (policy, {"n": [1, None]}, {})
        assert run.queued == 0
    assert store.events(new) == []


def test_events_are_stored_in_order_without_gaps_with_their_actor(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED)
        with run.acting_as(actor_named("ann"), "test"):
            run.record(message("one"), message("two"))
        run.commit()
        run.record(message("three"))
        run.commit()
        assert run.state.version == 4
    assert [(seq, kind, actor) for seq, kind, _, actor in store.events(new)] == [
        (1, "execution_started", "system"),
        (2, "message_added", "ann"),
        (3, "message_added", "ann"),
        (4, "message_added", "system"),
    ]
    assert contents(store, new) == ["one", "two", "three"]


def test_recorded_events_are_stored_only_by_the_commit(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.open(new, expected_version=None) as run:
        run.record(message("never committed"))
        assert run.state.version == 1
    assert (store.state(new).version, store.events(new)) == (0, [])


def test_an_empty_commit_writes_nothing(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.open(new, expected_version=None) as run:
        run.commit()
    assert (store.state(new), store.events(new)) == (ExecutionState(), [])


def test_the_stored_state_equals_the_fold_of_the_events(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED, FIRST_LAYER, DONE, opened("h1", timeout_seconds=60, quorum=2))
        run.record(
            ev.HoldVoted(
                hold_id="h1", voter="ann", voter_id=user_id("ann"), task_id="a", phase=AFTER
            )
        )
        run.rest(None)
        expected = run.state
    assert store.state(new) == expected
    assert replayed(store, new) == expected


def test_recorded_events_are_durable_once_they_are_committed(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED)
        run.commit()
        run.record(FIRST_LAYER)
        assert store.state(new).version == 1
        run.commit()
        assert store.state(new).version == 2


def test_two_changes_of_the_status_are_two_steps(store: Store) -> None:
    """PENDING to RUNNING to PAUSED: the first is durable before the second is recorded."""
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED, FIRST_LAYER, DONE)
        assert store.state(new).version == 0
        run.record(opened("h1"))
        assert (store.state(new).version, store.state(new).status) == (3, ExecutionStatus.RUNNING)
        run.commit()
    assert store.state(new).status is ExecutionStatus.PAUSED_FOR_REVIEW


def test_a_forbidden_change_of_the_status_is_refused(store: Store) -> None:
    new = store.create(PLAN)
    with (
        store.journal.open(new, expected_version=None) as run,
        pytest.raises(IllegalTransition),
    ):
        run.record(ev.ExecutionCompleted())
    assert store.events(new) == []


def test_the_context_is_merged_and_read_back(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, ev.ContextUpdated(updates={"a": 1, "b": {"c": [1]}}))
    with store.journal.open(new, expected_version=None) as run:
        run.record(ev.ContextUpdated(updates={"a": None}))
        assert run.context == {"a": None, "b": {"c": [1]}}
        run.commit()
    with store.journal.open(new, expected_version=None) as run:
        assert run.context == {"a": None, "b": {"c": [1]}}


def test_a_new_plan_revision_applies_at_once_and_is_stored(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER, DONE)
    plan = parse_plan({"tasks": [task("a"), task("b", {"$from": "a"}), task("c", {"$from": "b"})]})
    second = Revision.first(PLAN).revised(plan, begun=1)
    with store.journal.open(new, expected_version=None) as run:
        run.record(
            ev.PlanRevised(
                revision=2, total_layers=3, cause="replan", plan=plan, layers=second.layers
            )
        )
        assert run.revision == second
        run.commit()
    with store.journal.open(new, expected_version=None) as run:
        assert (run.revision, run.state.total_layers) == (second, 3)


# --- how tasks ended ------------------------------------------------------------------------------


def test_a_recorded_result_applies_at_once_and_is_stored_by_the_commit(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED, FIRST_LAYER, DONE)
        result = FinishedTask(TaskStatus.SUCCEEDED, DONE.output, inputs=DONE.inputs)
        assert run.finished_tasks(["a", "b"]) == {"a": result}
        run.commit()
        assert run.finished_tasks(["a", "b"]) == {"a": result}
    assert finished_tasks(store, new, "a", "b") == {"a": result}


def test_a_failure_settles_its_task_unless_it_is_tried_again(store: Store) -> None:
    new = store.create(PLAN)
    again = ev.TaskErrored(task_id="a", attempt=1, error="no", retry_at=5.5)
    write(store, new, STARTED, FIRST_LAYER, again)
    assert finished_tasks(store, new, "a") == {}
    assert store.state(new).tasks["a"].retry_at == 5.5
    write(store, new, ev.TaskErrored(task_id="a", attempt=2, error="no", is_leaf=True))
    assert finished_tasks(store, new, "a")["a"].status is TaskStatus.FAILED


def test_skipped_tasks_are_settled_with_the_reason(store: Store) -> None:
    new = store.create(PLAN)
    skips = {"a": SkipReason.CONDITION}
    write(store, new, STARTED, ev.LayerStarted(layer=0, tasks=("a",), skips=skips))
    write(store, new, ev.LayerClosed(layer=0), ev.LayerSkipped(layer=1, tasks=("b",)))
    assert finished_tasks(store, new, "a", "b") == {
        "a": FinishedTask(TaskStatus.SKIPPED, skip=SkipReason.CONDITION),
        "b": FinishedTask(TaskStatus.SKIPPED, skip=SkipReason.COMMAND),
    }


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ({"decision": "APPROVE"}, (TaskStatus.SUCCEEDED, DONE.output, None)),
        (
            {"decision": "APPROVE", "edited": True, "edits": {"n": 2}},
            (TaskStatus.SUCCEEDED, {"n": 2}, None),
        ),
        ({"decision": "APPROVE", "edited": True}, (TaskStatus.SUCCEEDED, None, None)),
        ({"decision": "REQUEST_CHANGES", "comment": "again"}, None),
        ({"decision": "REJECT", "on_reject": "fail"}, (TaskStatus.REJECTED, None, None)),
        (
            {"decision": "REJECT", "on_reject": "skip"},
            (TaskStatus.SKIPPED, None, SkipReason.REVIEWER),
        ),
    ],
)
def test_a_decision_about_an_output_sets_what_later_tasks_read(
    store: Store, verdict: dict[str, Any], expected: tuple[Any, ...] | None
) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER, DONE, opened("h1"))
    write(store, new, decided("h1", **verdict), actor="ann")
    found = finished_tasks(store, new, "a").get("a")
    assert (found and (found.status, found.output, found.skip)) == expected
    assert store.state(new).holds == ()


# --- version, lease and fence ---------------------------------------------------------------------


def test_an_outdated_expected_version_is_stale(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, message("one"))
    with pytest.raises(StaleVersion), store.journal.open(new, expected_version=0):
        pass
    with store.journal.open(new, expected_version=1) as run:
        assert run.state.version == 1


def test_of_two_commands_at_one_version_the_second_writes_nothing(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER)
    with (
        store.journal.open(new, expected_version=2) as first,
        store.journal.open(new, expected_version=2) as second,
    ):
        first.record(message("first"))
        first.commit()
        second.record(message("second"), ev.ContextUpdated(updates={"late": 1}), DONE)
        with pytest.raises(StaleVersion):
            second.commit()
    assert contents(store, new) == ["first"]
    assert (store.state(new).version, finished_tasks(store, new, "a")) == (3, {})
    with store.journal.open(new, expected_version=None) as run:
        assert run.context == {}


def test_a_held_execution_is_busy_for_commands_and_not_claimed_again(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        with store.journal.claim(new) as other:
            assert other is None
        with pytest.raises(Busy), store.journal.open(new, expected_version=None):
            pass


def test_a_command_opened_before_a_claim_writes_nothing(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.open(new, expected_version=0) as command:
        command.record(message("too late"))
        with store.journal.claim(new) as run:
            assert run is not None
            with pytest.raises(StaleVersion):
                command.commit()
    assert store.events(new) == []


def test_a_worker_whose_lease_went_to_another_writes_nothing(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as first:
        assert first is not None
        store.end_lease(new)
        with store.journal.claim(new) as second:
            assert second is not None
            first.record(STARTED, message("from the first"))
            with pytest.raises(LeaseLost):
                first.commit()
            with pytest.raises(LeaseLost):
                watched(first)
            second.record(message("from the second"))
            second.commit()
    assert contents(store, new) == ["from the second"]
    assert store.state(new).status is ExecutionStatus.PENDING


@pytest.mark.parametrize("records", [True, False])
def test_a_lost_lease_cannot_be_given_back(store: Store, records: bool) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as first:
        assert first is not None
        store.end_lease(new)
        with store.journal.claim(new) as second:
            assert second is not None
            if records:
                first.record(message("from the first"))
            with pytest.raises(LeaseLost):
                first.rest(None)
            with store.journal.claim(new) as third:
                assert third is None, "the second still holds it"
    assert store.events(new) == []


def test_a_claim_ends_with_its_block(store: Store) -> None:
    new = store.create(PLAN)
    for _ in range(2):
        with store.journal.claim(new) as run:
            assert run is not None


def test_a_pause_releases_the_lease_until_its_time(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED)
        assert run.rest(run.now() + 3600)
        with store.journal.claim(new) as other:
            assert other is None, "it is not time yet"
    assert store.state(new).version == 1
    write(store, new, message("a command wakes it"))
    with store.journal.claim(new) as run:
        assert run is not None
        assert run.rest(run.now() - 1)
    with store.journal.claim(new) as run:
        assert run is not None


def test_an_execution_that_waits_for_people_is_not_claimed(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER, DONE, opened("h1"))
    with store.journal.claim(new) as run:
        assert run is None
    write(store, new, decided("h1", "APPROVE"))
    with store.journal.claim(new) as run:
        assert run is not None


def test_an_execution_that_is_over_is_not_claimed(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, ev.ExecutionAborted(reason="enough"))
    with store.journal.claim(new) as run:
        assert run is None
    assert store.state(new).status is ExecutionStatus.ABORTED


# --- commands that wait ---------------------------------------------------------------------------


def test_queued_commands_are_delivered_once_in_order_with_their_sender(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED)
        for name in ("ann", "bob"):
            store.queue(new, UpdateState(updates={name: 1}), actor=name)
        run.commit()
        assert run.queued == 2
        taken = list(run.take_commands())
        assert [(each.actor.name, each.source, each.command.updates) for each in taken] == [
            ("ann", "test", {"ann": 1}),
            ("bob", "test", {"bob": 1}),
        ]
        run.record(message("applied"))
        run.commit()
        assert (run.queued, list(run.take_commands())) == (0, [])


def test_uncommitted_commands_are_delivered_again(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as first:
        assert first is not None
        store.queue(new, UpdateState(updates={"k": 1}), actor="ann")
        assert len(list(first.take_commands())) == 1
        store.end_lease(new)
        with store.journal.claim(new) as second:
            assert second is not None
            with pytest.raises(LeaseLost):
                first.commit()
            assert [each.actor.name for each in second.take_commands()] == ["ann"]
            second.commit()
            assert list(second.take_commands()) == []


def test_a_new_command_prevents_the_pause(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED)
        store.queue(new, UpdateState(updates={"k": 1}), actor="ann")
        assert not run.rest(None)
        with store.journal.claim(new) as other:
            assert other is None, "the lease is kept"
        assert len(list(run.take_commands())) == 1
        assert run.rest(None)


def test_a_queued_command_makes_an_execution_claimable(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        run.record(STARTED, FIRST_LAYER, DONE, opened("h1"))
        run.commit()
        store.queue(new, UpdateState(updates={"k": 1}), actor="ann")
    with store.journal.claim(new) as run:
        assert run is not None
        assert run.queued == 1


def test_a_queued_abort_is_seen_while_tasks_run(store: Store) -> None:
    new = store.create(PLAN)
    with store.journal.claim(new) as run:
        assert run is not None
        assert not run.heartbeat()
        store.queue(new, UpdateState(updates={"k": 1}), actor="ann")
        store.queue(new, Abort(), actor="ann")
        assert watched(run)


# --- holds ----------------------------------------------------------------------------------------


def test_holds_open_and_close_with_the_state(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER, DONE)
    write(store, new, opened("h1", timeout_seconds=60, quorum=2, on_timeout="reject"), opened("h2"))
    first, second = store.state(new).holds
    assert (first.id, first.quorum, first.on_timeout, second.id) == ("h1", 2, "reject", "h2")
    assert store.times(new, "h1") == (pytest.approx(60, abs=5), None)
    assert store.times(new, "h2") == (None, None)
    vote = ev.HoldVoted(
        hold_id="h1", voter="ann", voter_id=user_id("ann"), task_id="a", phase=AFTER
    )
    write(store, new, vote, actor="ann")
    write(store, new, ev.HoldExtended(hold_id="h1", seconds=3600), actor="ann")
    assert store.state(new).holds[0].approvals == ("ann",)
    assert store.times(new, "h1") == (pytest.approx(3660, abs=5), None)
    write(store, new, decided("h1", "APPROVE", resumed=False), actor="bob")
    assert [hold.id for hold in store.state(new).holds] == ["h2"]
    assert store.times(new, "h1") == (None, None)
    write(store, new, ev.ExecutionAborted(reason="enough"))
    assert store.state(new).holds == ()


def test_a_decision_is_pending_until_it_is_withdrawn_or_due(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER, DONE, opened("h1", timeout_seconds=60))
    answer = {
        "actor": "ann",
        "actor_id": user_id("ann"),
        "command": {"kind": "approval_response", "approved": True},
    }
    answered = ev.HoldAnswered.model_validate(
        {
            "hold_id": "h1",
            "reason": "node_review",
            "decision": "APPROVE",
            "task_id": "a",
            "phase": AFTER,
            "undo_seconds": 600,
            "answer": answer,
        }
    )
    write(store, new, answered, actor="ann")
    (hold,) = store.state(new).holds
    assert hold.answer == answered.answer
    assert store.times(new, "h1")[1] == pytest.approx(600, abs=5)
    back = ev.HoldWithdrawn(
        hold_id="h1",
        voter="ann",
        voter_id=user_id("ann"),
        what="decision",
        task_id="a",
        phase=AFTER,
    )
    write(store, new, back, actor="ann")
    assert store.state(new).holds[0].answer is None
    assert store.times(new, "h1") == (pytest.approx(60, abs=5), None)


# --- what agents and forks read -------------------------------------------------------------------


def test_messages_and_decisions_are_read_oldest_first(store: Store) -> None:
    new = store.create(PLAN)
    write(store, new, STARTED, FIRST_LAYER, DONE, message("one"), opened("h1"))
    write(store, new, decided("h1", "REJECT", on_reject="fail", comment="no"), actor="ann")
    write(store, new, ev.AgentDecided(agent="echo", decision="continue", reason="fine"))
    write(store, new, message("two"))
    with store.journal.open(new, expected_version=None) as run:
        assert [dict(each) for each in run.conversation()] == [
            {"role": "user", "content": "one", "author": ""},
            {"role": "user", "content": "two", "author": ""},
        ]
        first, second = run.decisions()
    assert (first["seq"], first["type"], first["reviewer"]) == (6, "HIL", "ann")
    assert (first["hold_id"], first["node_id"], first["comment"]) == ("h1", "a", "no")
    assert (second["seq"], second["type"]) == (7, "AIL")


def test_a_fork_continues_from_the_end_of_a_layer(store: Store) -> None:
    old = store.create(PLAN, inputs={"n": 1})
    write(
        store,
        old,
        STARTED,
        FIRST_LAYER,
        DONE,
        message("before"),
        ev.ContextUpdated(updates={"k": 1}),
        ev.LayerClosed(layer=0),
    )
    write(store, old, message("behind"), ev.ContextUpdated(updates={"k": 2}), SECOND_LAYER)
    new = store.fork(old, 0)
    state = store.state(new)
    assert (state.status, state.layer, state.stage) == (ExecutionStatus.PENDING, 0, Stage.AGENT)
    assert (state.total_layers, state.origin, state.revision) == (2, old, 1)
    assert (state.tasks, state.holds, state.holds_opened) == ({}, (), 0)
    assert [kind for _, kind, *_ in store.events(new)] == ["execution_forked", "message_added"]
    assert contents(store, new) == ["before"]
    with store.journal.claim(new) as run:
        assert run is not None
        assert (run.inputs, run.context, run.revision) == ({"n": 1}, {"k": 1}, Revision.first(PLAN))
        assert run.finished_tasks(["a", "b"])["a"].output == DONE.output
        run.record(STARTED)
    grandchild_of(store, new)


def test_the_decisions_of_a_fork_begin_with_its_parents(store: Store) -> None:
    old = store.create(PLAN)
    agreed = ev.AgentDecided(agent="echo", decision="continue", reason="before")
    write(store, old, STARTED, FIRST_LAYER, DONE, agreed, ev.LayerClosed(layer=0))
    write(store, old, ev.AgentDecided(agent="echo", decision="continue", reason="behind"))
    new = store.fork(old, 0)
    write(store, new, ev.AgentDecided(agent="echo", decision="continue", reason="own"))
    with store.journal.open(new, expected_version=None) as run:
        found = [(each["execution_id"], each["seq"], each["comment"]) for each in run.decisions()]
    assert found == [(old, 4, "before"), (new, 2, "own")]


def grandchild_of(store: Store, fork: str) -> None:
    """A fork of a fork names the execution that the chain began with."""
    write(store, fork, STARTED, SECOND_LAYER)
    done = ev.TaskSucceeded(task_id="b", attempt=1, duration_ms=1, inputs={}, output=2)
    write(store, fork, done, ev.LayerClosed(layer=1))
    origin = store.state(fork).origin
    assert store.state(store.fork(fork, 1)).origin == origin


def test_a_fork_is_rebuilt_from_its_own_events(store: Store) -> None:
    old = store.create(PLAN)
    failed = ev.TaskErrored(task_id="a", attempt=1, error="no", is_leaf=True)
    write(store, old, STARTED, FIRST_LAYER, failed, ev.LayerClosed(layer=0, failed=True))
    new = store.fork(old, 0)
    assert replayed(store, new) == store.state(new)
    assert store.state(new).failed_leaf
