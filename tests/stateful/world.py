"""A model beside every execution, independent of where executions are stored."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.stateful.model import FINAL, Answer, Model
from tests.stateful.oracle import Interventions, Outcome, expected, status_fits
from tests.stateful.workers import Sleeper, dies_at
from workflows.engine.plans.dag import Plan
from workflows.engine.plans.diff import changed_plan, load_change
from workflows.engine.protocol.events import load_event
from workflows.engine.protocol.evolve import evolve
from workflows.engine.protocol.state import ExecutionState, dump_state, load_state

#: Bytes of control state: a base, and so many per task of the layer and per open hold.
STATE_BASE, STATE_PER_TASK, STATE_PER_HOLD = 700, 900, 400
REVIEWERS = ("ann", "bob")
#: The one tool of `tools` with the read-only mark.
READER = "statekit.value"


class OpenHold(Protocol):
    """An open hold as people see it."""

    pk: str
    changes_left: int


class Bookmark(Protocol):
    """A checkpoint that an execution can be forked from."""

    layer: int
    revision: int


@dataclass(frozen=True)
class News:
    """One recorded event."""

    seq: int
    kind: str
    payload: Mapping[str, Any]
    actor: str


@dataclass(frozen=True)
class Call:
    """One call of a tool, with the idempotency key that the tool was given."""

    execution_id: str
    task_id: str
    attempt: str
    key: str


@dataclass(frozen=True)
class Row:
    """What is stored of an execution besides its events; `state` is JSON text."""

    version: int
    status: str
    state: str
    width: int
    context: Mapping[str, Any]


class World(ABC):
    """The executions of one example."""

    #: Whether results are computed ahead of decisions, and edits are checked against schemas.
    speculates = False
    checks_edits = False

    def __init__(self) -> None:
        self.models: list[Model] = []
        self._unread_calls: list[Call] = []
        self._keys: dict[tuple[str, str, str], str] = {}

    # --- beginnings -----------------------------------------------------------------------------

    @abstractmethod
    def start(self, plan: dict[str, Any], policy: dict[str, Any]) -> None:
        """Start an execution and add its model."""

    @abstractmethod
    def _fork(self, parent: Model, checkpoint: Any, interventions: Interventions) -> Model:
        """Fork the execution and add the model of the fork."""

    def fork(self, parent: Model, checkpoint: Bookmark) -> None:
        """Go on from a checkpoint: tasks that had ended until then have ended there too."""
        ends = expected(parent.plan, parent.interventions)
        layers = self._layers(parent, checkpoint.revision)
        inherited = {name: ends[name] for layer in layers[: checkpoint.layer + 1] for name in layer}
        model = self._fork(
            parent,
            checkpoint,
            Interventions(inputs=parent.interventions.inputs, inherited=inherited),
        )
        own = range(1, checkpoint.revision + 1)
        revisions = [self._plan(parent, number) for number in own]
        model.ancestors = [*parent.ancestors, *revisions]
        model.plans = [*model.ancestors, model.plan]
        model.layer = checkpoint.layer
        model.skipped = set(parent.skipped_at[checkpoint.layer])
        self.sync(model)

    @abstractmethod
    def checkpoints(self, model: Model) -> list[Any]:
        """The checkpoints of an execution, oldest first."""

    # --- workers and time -----------------------------------------------------------------------

    @abstractmethod
    def work(self, execution_id: int, moves: int) -> None:
        """What a worker does with a job, for `moves` moves."""

    @abstractmethod
    def work_to_rest(self, model: Model) -> None:
        """What a worker does with a job."""

    @abstractmethod
    def fence_of(self, execution_id: int) -> int:
        """How often a worker has claimed the execution."""

    def sleeper(self, model: Model) -> Sleeper:
        return Sleeper(model.id, self.work, self.fence_of)

    @abstractmethod
    def speculate(self, model: Model) -> None:
        """Compute results ahead of a decision."""

    @abstractmethod
    def is_held(self, model: Model) -> bool:
        """Whether some worker holds a lease that has not run out."""

    @abstractmethod
    def sweep(self) -> None:
        """One round of the sweeper."""

    @abstractmethod
    def settle_due(self) -> None:
        """Carry out the answers whose time to undo is over."""

    @abstractmethod
    def let_time_pass(self, *models: Model) -> None:
        """Leases run out, and no worker has been sent for in a long time."""

    @abstractmethod
    def expire_holds(self, model: Model) -> None:
        """The deadlines of the open holds are over; the sweeper has not come by yet."""

    @abstractmethod
    def end_time_to_undo(self, *models: Model) -> None:
        """The time to undo what rests is over; the sweeper has not come by yet."""

    # --- requests -------------------------------------------------------------------------------

    @abstractmethod
    def open_holds(self, model: Model, decider: str = "human") -> list[Any]:
        """Open holds, oldest first."""

    @abstractmethod
    def _send_decision(
        self, model: Model, hold: Any, answer: Answer, *, kind: str, undo_seconds: float | None
    ) -> bool:
        """Send an answer; False when it came too late or the run was busy.

        `kind` is "" for a decision on a page, else the command that carries it.
        """

    @abstractmethod
    def _send_withdrawal(self, model: Model, hold_id: str, who: str) -> bool:
        """Take an answer back; False when it came too late or the run was busy."""

    @abstractmethod
    def _send_command(self, model: Model, data: dict[str, Any], version: int | None) -> str:
        """Send a command: applied, queued, refused or stale."""

    def decide(
        self,
        model: Model,
        hold: OpenHold,
        *,
        approved: bool,
        who: str = "ann",
        kind: str = "",
        nth: int | None = None,
        changes: str = "",
        undo_seconds: float | None = None,
        **edits: Any,
    ) -> None:
        """A reviewer answers; whatever happens, only one answer can be recorded.

        With `edits=...` or `set_output_null` the answer changes what was shown, with `changes` it
        is sent back with these words, with `undo_seconds` it rests first.  With `nth` the process
        that serves it dies at that crash point.
        """
        self.sync(model)
        answer = Answer(approved, who, edits.get("edits"), bool(edits), changes)
        model.answers[hold.pk].append(answer)
        free = not self.is_held(model)
        voted = who in model.open[hold.pk].voters
        won = True

        def send() -> None:
            nonlocal won
            won = self._send_decision(model, hold, answer, kind=kind, undo_seconds=undo_seconds)

        if nth is None:
            send()
        else:
            dies_at(nth, send)
        assert won == (free and not voted)
        self.sync(model)

    @abstractmethod
    def decide_badly(self, model: Model, hold: Any, edits: Any) -> None:
        """An edit that cannot be stored changes nothing; see `checks_edits`."""

    @abstractmethod
    def decide_too_late(self, model: Model, hold: Any) -> None:
        """An answer at a version that is gone wins nothing."""

    def take_back(self, model: Model, hold_id: str) -> None:
        """The person who decided takes it back: the hold is open, unless a worker is on the run."""
        self.sync(model)
        model.withdrawing.add(hold_id)
        free, who = not self.is_held(model), model.open[hold_id].resting
        won = self._send_withdrawal(model, hold_id, who)
        assert won == free
        self.sync(model)
        assert bool(model.open[hold_id].resting) != won

    def command(self, model: Model, data: dict[str, Any], version: int | None = None) -> str:
        """applied, queued, refused or stale."""
        model.sent[data["kind"]] += 1
        updates = set(data.get("updates", ()))
        model.tried_updates |= updates
        outcome = self._send_command(model, data, version)
        if outcome in ("refused", "stale"):
            return outcome
        (model.told_updates if outcome == "applied" else model.queued_updates).update(updates)
        self.sync(model)
        return outcome

    # --- looking --------------------------------------------------------------------------------

    @abstractmethod
    def _plan(self, model: Model, revision: int) -> Plan: ...

    @abstractmethod
    def _layers(self, model: Model, revision: int) -> tuple[tuple[str, ...], ...]: ...

    @abstractmethod
    def _news(self, model: Model) -> Iterable[News]:
        """Events that the model has not seen."""

    @abstractmethod
    def _row(self, model: Model) -> Row: ...

    @abstractmethod
    def _new_calls(self) -> Iterable[Call]:
        """The calls of tools since the last time."""

    def sync(self, *models: Model) -> None:
        """Tell the models what was recorded, and compare the records with them.

        Every call of a tool was allowed, and repetitions carry the key of their attempt.
        """
        synced = {str(model.id): model for model in models or self.models}
        for model in synced.values():
            self._sync(model)
        # A call is compared with its model only once the model knows what was recorded before it.
        calls = [*self._unread_calls, *self._new_calls()]
        self._unread_calls = [call for call in calls if call.execution_id not in synced]
        for call in calls:
            if call.execution_id in synced:
                self._check_call(synced[call.execution_id], call)

    def _check_call(self, model: Model, call: Call) -> None:
        if call.attempt.startswith("ahead-"):
            # Out of turn, so only what reads; whether its result counts is seen in the events.
            plan, proposal = model.plan, model.replayed.proposal
            if proposal is not None:  # reads of a plan that people decide about run ahead too
                plan = changed_plan(plan, load_change(proposal.change))
            assert plan.by_id[call.task_id].target == READER
            return
        model.may_run(call.task_id)
        attempt = (call.execution_id, call.task_id, call.attempt)
        assert self._keys.setdefault(attempt, call.key) == call.key

    def _sync(self, model: Model) -> None:
        for each in self._news(model):
            model.replayed = evolve(model.replayed, load_event(each.kind, each.payload))
            if each.kind == "plan_revised":
                model.revised(self._plan(model, each.payload["revision"]))
            model.see(each.seq, each.kind, each.payload, each.actor)
        row = self._row(model)
        assert row.version == model.seen, "the version is the number of events"
        assert (row.status if row.status in FINAL else "") == model.final
        # What is stored of an event is JSON: compared are the states as they are read back.
        assert _read_back(dump_state(model.replayed)) == _read_back(row.state)
        assert row.context == model.context
        assert model.told_updates <= model.context.keys(), "an applied update is gone"
        rests = sum(bool(hold.resting) for hold in model.open.values())
        bound = STATE_BASE + STATE_PER_TASK * row.width
        bound += STATE_PER_HOLD * (len(model.open) + rests)
        assert len(row.state) <= bound, "the control state grows"

    # --- ends -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Once all holds are decided, every execution comes to its end, found by the sweeper."""
        for _ in range(40):
            self.sync()
            left = [model for model in self.models if not model.final or self._waits(model)]
            if not left:
                break
            self.end_time_to_undo(*left)
            self.settle_due()
            self.sync()
            self.let_time_pass(*left)
            self._are_found(left)
            for model in left:
                self.work_to_rest(model)
                self.sync(model)
                self._decide_all(model)
        assert all(model.final for model in self.models), "lost"
        for model in self.models:
            self._check_end(model)

    @abstractmethod
    def _waits(self, model: Model) -> bool:
        """Whether commands wait for a worker."""

    @abstractmethod
    def _are_found(self, left: list[Model]) -> None:
        """The sweeper sees all work that nobody holds."""

    def _decide_all(self, model: Model) -> None:
        for hold in self.open_holds(model):
            if model.final:
                return
            for who in REVIEWERS:
                if hold.pk in model.open:
                    self.decide(model, hold, approved=True, who=who)
        if self.open_holds(model, "agent"):
            assert self.command(model, {"kind": "continue"}) == "applied"

    def _check_end(self, model: Model) -> None:
        ends = expected(model.plan, model.interventions)
        settled = self._settled(model)
        for name, end in settled.items():
            assert (ends[name].status, ends[name].skip) == (end.status, end.skip), name
            if end.status == "SUCCEEDED":
                assert ends[name].output == end.output, name
                assert ends[name].inputs in (None, end.inputs), name
        self.check_records(model)
        self._check_commands(model)
        self._check_ahead(model, settled)
        if model.final != "ABORTED":
            assert settled.keys() == model.plan.by_id.keys()
            assert status_fits(model.final, model.plans, ends)

    @abstractmethod
    def _settled(self, model: Model) -> dict[str, Outcome]:
        """How the tasks ended."""

    @abstractmethod
    def check_records(self, model: Model) -> None:
        """One record per decision of a person, or of time in a person's stead."""

    @abstractmethod
    def _check_commands(self, model: Model) -> None:
        """No queued command is lost."""

    @abstractmethod
    def _check_ahead(self, model: Model, settled: dict[str, Outcome]) -> None:
        """A result from ahead was used once, or is gone."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the world holds open."""


def _read_back(text: str) -> ExecutionState:
    return load_state(json.loads(text))
