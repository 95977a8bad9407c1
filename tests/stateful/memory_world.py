"""The engine on the journal in memory: the same model and oracle, several times faster.

It covers the protocol of the engine.  It leaves out the SQL of the journal, the records of
decisions, the rights of people, checks of edits against schemas, and work ahead of decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.stateful.model import Answer, Model
from tests.stateful.oracle import Interventions, Outcome
from tests.stateful.planner import AddsATask
from tests.stateful.plans import INPUTS
from tests.stateful.scripted import ScriptedRunner
from tests.stateful.workers import reached
from tests.stateful.world import Call, News, Row, World
from tests.support.actors import actor_named, user_id
from tests.support.memory_journal import Bookmark, MemoryJournal, Stored
from workflows.agents import RegisteredAgents
from workflows.engine.plans.dag import Plan
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol import commands as cmd
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.events import dump_event
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import Busy, LeaseLost, Ports, StaleVersion
from workflows.engine.protocol.state import Hold, HoldReason, dump_state
from workflows.engine.protocol.status import ExecutionStatus

MANY_MOVES = 100_000
_LIVE = (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)


@dataclass(frozen=True)
class HoldInMemory:
    """world.OpenHold."""

    pk: str
    changes_left: int


class MemoryWorld(World):
    """Executions in memory, moved on by the engine's loop."""

    def __init__(self) -> None:
        super().__init__()
        self._journal = MemoryJournal(slice_moves=MANY_MOVES)
        # The hooks stand where the crash points of the journal on PostgreSQL stand.
        self._journal.before_step = self._journal.after_step = reached
        self._journal.claimed = reached
        self._runner = ScriptedRunner()
        self._calls_read = 0
        self._ports = Ports(
            self._journal,
            self._runner,
            RegisteredAgents(),
            AddsATask(),
            summarise=lambda run: "summary",
        )

    def _stored(self, model: Model) -> Stored:
        return self._journal.executions[str(model.id)]

    # --- beginnings -----------------------------------------------------------------------------

    def start(self, plan: dict[str, Any], policy: dict[str, Any]) -> None:
        tasks = [with_permissions(task) for task in plan["tasks"]]
        parsed = parse_plan({"tasks": tasks})
        merged = Policy.model_validate(policy)
        self._add(
            self._journal.create(parsed, policy=merged, inputs=INPUTS), Interventions(inputs=INPUTS)
        )

    def _fork(self, parent: Model, checkpoint: Bookmark, interventions: Interventions) -> Model:
        model = self._add(self._journal.fork(str(parent.id), checkpoint), interventions)
        model.context = dict(checkpoint.context)
        return model

    def _add(self, execution_id: str, interventions: Interventions) -> Model:
        stored = self._journal.executions[execution_id]
        policy = stored.policy.model_dump(mode="json")
        model = Model(int(execution_id), stored.plan, policy, interventions)
        self.models.append(model)
        return model

    def checkpoints(self, model: Model) -> list[Bookmark]:
        return self._stored(model).checkpoints

    # --- workers and time -----------------------------------------------------------------------

    def work(self, execution_id: int, moves: int) -> None:
        self._work(execution_id, moves)

    def _work(self, execution_id: int, moves: int) -> bool:
        journal = self._journal.with_slice(moves)
        try:
            return step(str(execution_id), replace(self._ports, journal=journal))
        except (LeaseLost, StaleVersion):
            return False

    def work_to_rest(self, model: Model) -> None:
        while self._work(model.id, MANY_MOVES):
            pass

    def fence_of(self, execution_id: int) -> int:
        return self._journal.executions[str(execution_id)].fence

    def speculate(self, model: Model) -> None:
        """The journal in memory keeps no results from ahead."""

    def is_held(self, model: Model) -> bool:
        return self._stored(model).is_held(self._journal.now)

    def let_time_pass(self, *models: Model) -> None:
        for model in models or self.models:
            stored = self._stored(model)
            if stored.lease_until is not None:
                stored.lease_until = 0.0
            if stored.wake_at is not None:
                stored.wake_at = 0.0

    def expire_holds(self, model: Model) -> None:
        stored = self._stored(model)
        for hold in stored.state.holds:
            if hold.id in stored.deadlines and hold.answer is None:
                stored.deadlines[hold.id] = self._journal.now
                model.expiring.add(hold.id)

    def end_time_to_undo(self, *models: Model) -> None:
        for model in models:
            stored = self._stored(model)
            model.settling |= stored.undo_until.keys()
            stored.undo_until = dict.fromkeys(stored.undo_until, self._journal.now)

    def sweep(self) -> None:
        for model in self.models:
            self._expire(model)
        self.settle_due()

    def _expire(self, model: Model) -> None:
        stored = self._stored(model)
        for hold in stored.state.holds:
            late = stored.deadlines.get(hold.id, self._journal.now + 1) <= self._journal.now
            if late and hold.answer is None:
                command = cmd.ExpireHold(hold=hold.id)
                with suppress(Refused, StaleVersion):
                    if hold.decider == "agent":
                        self._submit(model, command, actor="system")
                    else:
                        self._submit_at_rest(model, command, actor="system")

    def settle_due(self) -> None:
        for model in self.models:
            stored = self._stored(model)
            for hold in stored.state.holds:
                if stored.undo_until.get(hold.id, self._journal.now + 1) <= self._journal.now:
                    self._settle(model, hold)

    def _settle(self, model: Model, hold: Hold) -> None:
        """As reviews.decisions.withdrawal.settle: an answer that no longer fits is withdrawn."""
        others = [each for each in self._stored(model).state.holds if each.answer is None]
        if hold.answer is None or (others and not _ends_run(hold)):
            return
        actor = hold.answer.actor
        try:
            self._submit_at_rest(model, cmd.SettleAnswer(hold=hold.id), actor=actor)
        except Refused:
            model.withdrawing.add(hold.id)
            back = cmd.WithdrawAnswer(hold=hold.id, of=user_id(actor))
            self._submit_at_rest(model, back, actor="system")
        except StaleVersion:
            return

    # --- requests -------------------------------------------------------------------------------

    def open_holds(self, model: Model, decider: str = "human") -> list[HoldInMemory]:
        stored = self._stored(model)
        return [
            HoldInMemory(hold.id, _changes_left(stored, hold))
            for hold in stored.state.holds
            if hold.decider == decider and hold.answer is None
        ]

    def _send_decision(
        self,
        model: Model,
        hold: HoldInMemory,
        answer: Answer,
        *,
        kind: str,
        undo_seconds: float | None,
    ) -> bool:
        response = cmd.CheckpointResponse if kind else cmd.ApprovalResponse
        command = response(
            hold=hold.pk,
            approved=answer.approved,
            request_changes=bool(answer.changes),
            feedback=answer.changes,
            undo_seconds=undo_seconds or 0,
            **answer.given,
        )
        if answer.actor in model.open[hold.pk].voters:
            return False  # refused by reviews.decisions.rights, whatever the answer is
        try:
            return self._submit_at_rest(model, command, actor=answer.actor, version=model.seen)
        except StaleVersion:
            return False

    def decide_too_late(self, model: Model, hold: HoldInMemory) -> None:
        self.sync(model)
        command = cmd.ApprovalResponse(hold=hold.pk, approved=True)
        try:
            done = self._submit_at_rest(model, command, actor="ann", version=model.seen - 1)
        except StaleVersion:
            done = False
        assert not done, "a stale answer was taken"
        self.sync(model)

    def decide_badly(self, model: Model, hold: HoldInMemory, edits: Any) -> None:
        """Edits are checked by the services, which are not used here."""

    def _send_withdrawal(self, model: Model, hold_id: str, who: str) -> bool:
        back = cmd.WithdrawAnswer(hold=hold_id, of=user_id(who))
        return self._submit_at_rest(model, back, actor=who)

    def _send_command(self, model: Model, data: dict[str, Any], version: int | None) -> str:
        if data["kind"] == "inject_task":
            data = {**data, "task": with_permissions(data["task"])}
        try:
            return self._submit(model, cmd.load_command(data), actor="operator", version=version)
        except Refused:
            return "refused"
        except StaleVersion:
            return "stale"

    def _submit(self, model: Model, command: Any, *, actor: str, version: int | None = None) -> str:
        """As services.submit_command: at once at rest, queued while a worker is on the run."""
        if self._submit_at_rest(model, command, actor=actor, version=version):
            return "applied"
        self._journal.queue(str(model.id), command, actor=actor)
        reached("command.queued")
        return "queued"

    def _submit_at_rest(
        self, model: Model, command: Any, *, actor: str, version: int | None = None
    ) -> bool:
        """False when a worker is on the run."""
        execution_id = str(model.id)
        while True:
            try:
                submit(
                    execution_id,
                    command,
                    self._ports,
                    actor=actor_named(actor),
                    source="test",
                    expected_version=version,
                )
            except Busy:
                return False
            except StaleVersion:
                if version is not None:
                    raise
            else:
                reached("command.applied")
                return True

    # --- looking --------------------------------------------------------------------------------

    def _plan(self, model: Model, revision: int) -> Plan:
        return self._stored(model).revisions[revision].plan

    def _layers(self, model: Model, revision: int) -> tuple[tuple[str, ...], ...]:
        return self._stored(model).revisions[revision].layers

    def _news(self, model: Model) -> Iterable[News]:
        stored = self._stored(model)
        for seq in range(model.seen, len(stored.events)):
            event = stored.events[seq]
            yield News(seq + 1, event.kind, dump_event(event), stored.actors[seq].name)

    def _row(self, model: Model) -> Row:
        stored = self._stored(model)
        state = stored.state
        return Row(
            state.version, state.status.value, dump_state(state), len(state.tasks), stored.context
        )

    def _new_calls(self) -> Iterator[Call]:
        for call in self._runner.calls[self._calls_read :]:
            yield Call(call.execution_id, call.task.id, str(call.attempt), call.key)
        self._calls_read = len(self._runner.calls)

    # --- ends -----------------------------------------------------------------------------------

    def _waits(self, model: Model) -> bool:
        return bool(self._stored(model).queued)

    def _are_found(self, left: list[Model]) -> None:
        for model in left:
            stored = self._stored(model)
            if stored.queued or stored.state.status in _LIVE:
                assert stored.has_work(self._journal.now)
                assert not self.is_held(model)

    def _settled(self, model: Model) -> dict[str, Outcome]:
        return {
            name: Outcome(
                each.status.value, each.skip.value if each.skip else "", each.output, each.inputs
            )
            for name, each in self._stored(model).finished.items()
        }

    def check_records(self, model: Model) -> None:
        """Records are written by the services, which are not used here."""

    def _check_ahead(self, model: Model, settled: dict[str, Outcome]) -> None:
        """The journal in memory keeps no results from ahead."""

    def close(self) -> None:
        """Nothing is held open."""

    def _check_commands(self, model: Model) -> None:
        assert not self._stored(model).queued, "a queued command is lost"


def with_permissions(task: dict[str, Any]) -> dict[str, Any]:
    """A task with the permission set that the catalogue gives its tool."""
    effect = task["tool"].endswith(".effect")
    return {**task, "permission_set": "filesystem" if effect else "readonly"}


def _changes_left(stored: Stored, hold: Hold) -> int:
    """How often the output can be sent back yet."""
    if hold.phase != "AFTER_EXECUTION" or hold.task_id is None:
        return 0
    review = stored.revisions[stored.state.revision].plan.by_id[hold.task_id].human_review
    asked = len(stored.state.tasks[hold.task_id].feedback)
    return max(0, review.max_change_requests - asked) if review else 0


def _ends_run(hold: Hold) -> bool:
    """Whether the waiting answer ends the run, so that it waits for no other hold."""
    rejects = hold.answer is not None and not (
        hold.answer.command["approved"] or hold.answer.command.get("request_changes")
    )
    node = hold.reason is HoldReason.NODE_REVIEW and hold.on_reject == "abort"
    return rejects and (node or hold.reason is HoldReason.LAYER_APPROVAL)
