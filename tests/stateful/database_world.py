"""Real services on PostgreSQL, with a model of every execution beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django_rq
from django.db.models import Q
from django.db.models.functions import Now

from reviews.decisions import withdrawal
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.services import DecisionRequest, decide, decide_command
from reviews.models import HumanReviewRecord
from tests.stateful import workers
from tests.stateful.model import Answer, Model
from tests.stateful.oracle import Interventions, Outcome
from tests.stateful.plans import INPUTS
from tests.stateful.world import Call, News, Row, World
from workflows.engine.plans.dag import Plan
from workflows.engine.protocol.actors import Actor
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.executions.dispatch import DEFAULT, QUEUES
from workflows.executions.jobs import advance, speculate
from workflows.executions.recovery import sweep
from workflows.executions.services import (
    fork_execution,
    parse_command,
    start_execution,
    submit_command,
)
from workflows.executions.validation import InvalidRequest
from workflows.journal import sweeper_queries as journal_due
from workflows.journal import writer as journal_writer
from workflows.models import Checkpoint, CommandLog, Execution, ExecutionEvent, Hold, Speculation
from workflows.speculation import store as speculation_store

if TYPE_CHECKING:
    from django.contrib.auth.models import User

EPOCH = "2000-01-01T00:00Z"


class DatabaseWorld(World):
    """Executions on PostgreSQL, moved on by the services and jobs of the product."""

    speculates = True
    checks_edits = True

    def __init__(self, ledger: Path, reviewers: dict[str, User]) -> None:
        super().__init__()
        os.environ["HOLDPOINT_TEST_LEDGER"] = str(ledger)
        self._ledger = ledger.open("a+")
        self._reviewers = reviewers

    # --- beginnings -----------------------------------------------------------------------------

    def start(self, plan: dict[str, Any], policy: dict[str, Any]) -> None:
        # Ann and Bob edit and approve as it falls; who may approve what has tests of its own.
        policy = {**policy, "four_eyes": False}
        execution = start_execution(actor=None, plan=plan, policy=policy, inputs=INPUTS)
        self._add(execution, Interventions(inputs=INPUTS))

    def _fork(self, parent: Model, checkpoint: Checkpoint, interventions: Interventions) -> Model:
        execution = fork_execution(
            execution=Execution.objects.get(pk=parent.id), checkpoint=checkpoint, actor=None
        )
        model = self._add(execution, interventions)
        model.context = dict(checkpoint.context)
        return model

    def _add(self, execution: Execution, interventions: Interventions) -> Model:
        plan = journal_writer.load_revision(execution.pk, 1).plan
        model = Model(execution.pk, plan, execution.policy, interventions)
        self.models.append(model)
        return model

    def checkpoints(self, model: Model) -> list[Checkpoint]:
        return list(Checkpoint.objects.filter(execution_id=model.id).order_by("layer"))

    # --- workers and time -----------------------------------------------------------------------

    def work(self, execution_id: int, moves: int) -> None:
        workers.work(execution_id, moves)

    def work_to_rest(self, model: Model) -> None:
        advance(model.id)

    def fence_of(self, execution_id: int) -> int:
        return workers.fence_of(execution_id)

    def speculate(self, model: Model) -> None:
        # It would give way to the jobs that nobody takes here.
        django_rq.get_queue(DEFAULT).empty()
        speculate(model.id)

    def is_held(self, model: Model) -> bool:
        rows = Execution.objects.filter(pk=model.id, lease_until__gte=Now())
        return rows.exists()

    def sweep(self) -> None:
        sweep()

    def settle_due(self) -> None:
        withdrawal.settle_due()

    def let_time_pass(self, *models: Model) -> None:
        rows = Execution.objects.filter(pk__in=[model.id for model in models or self.models])
        rows.filter(lease_until__isnull=False).update(lease_until=EPOCH)
        rows.filter(wake_at__isnull=False).update(wake_at=EPOCH)
        rows.update(dispatched_at=EPOCH)

    def expire_holds(self, model: Model) -> None:
        late = Hold.objects.filter(execution_id=model.id, status="OPEN", expires_at__isnull=False)
        model.expiring |= set(late.values_list("pk", flat=True))
        late.update(expires_at=Now())

    def end_time_to_undo(self, *models: Model) -> None:
        for model in models:
            rows = Hold.objects.filter(execution_id=model.id, undo_until__isnull=False)
            model.settling |= set(rows.values_list("pk", flat=True))
            rows.update(undo_until=EPOCH)

    # --- requests -------------------------------------------------------------------------------

    def open_holds(self, model: Model, decider: str = "human") -> list[Hold]:
        rows = Hold.objects.filter(execution_id=model.id, status="OPEN", decider=decider)
        return list(rows.order_by("opened_seq"))

    def _send_decision(
        self, model: Model, hold: Hold, answer: Answer, *, kind: str, undo_seconds: float | None
    ) -> bool:
        user = self._reviewers[answer.actor]
        try:
            if kind:
                self._command_decision(hold, answer, kind, user)
                return True
            more: dict[str, Any] = {} if undo_seconds is None else {"undo_seconds": undo_seconds}
            decide(
                DecisionRequest(
                    hold_id=hold.pk,
                    user=user,
                    decision=answer.decision,
                    version=model.seen,
                    comment=answer.changes,
                    source="test",
                    **more,
                    **answer.given,
                )
            )
        except Conflict:
            return False
        return True

    def _command_decision(self, hold: Hold, answer: Answer, kind: str, user: User) -> None:
        command = {"kind": kind, "hold": hold.pk, "approved": answer.approved, **answer.given}
        decide_command(
            execution=hold.execution,
            command=parse_command(command),
            user=user,
            token=None,
            source="test",
            version=None,
        )

    def _send_withdrawal(self, model: Model, hold_id: str, who: str) -> bool:
        try:
            withdrawal.withdraw(hold_id=hold_id, user=self._reviewers[who], source="test")
        except Conflict:
            return False
        return True

    def decide_badly(self, model: Model, hold: Hold, edits: Any) -> None:
        """An edit that nobody can take leaves all as it was, and a line in the command log."""
        self.sync(model)
        lines = CommandLog.objects.filter(execution_id=model.id).exclude(outcome="applied")
        before, logged = model.seen, lines.count()
        try:
            decide(
                DecisionRequest(
                    hold_id=hold.pk,
                    user=self._reviewers["ann"],
                    decision="APPROVE",
                    version=model.seen,
                    edits=edits,
                    source="test",
                )
            )
        except (ReviewInvalid, Conflict):
            self.sync(model)
        else:
            raise AssertionError("a bad edit was taken")
        assert (model.seen, lines.count()) == (before, logged + 1)

    def decide_too_late(self, model: Model, hold: Hold) -> None:
        """An answer at a version that is gone wins nothing."""
        self.sync(model)
        try:
            decide(
                DecisionRequest(
                    hold_id=hold.pk,
                    user=self._reviewers["ann"],
                    decision="APPROVE",
                    version=model.seen - 1,
                    source="test",
                )
            )
        except Conflict:
            self.sync(model)
        else:
            raise AssertionError("a stale answer was taken")

    def _send_command(self, model: Model, data: dict[str, Any], version: int | None) -> str:
        try:
            result = submit_command(
                execution_id=model.id,
                command=parse_command(data),
                actor=Actor("operator"),
                source="test",
                version=version,
            )
        except Refused:
            return "refused"
        except InvalidRequest as invalid:
            # An injected task that can modify data states too loose a review.
            if {each.code for each in invalid.problems} != {"always_reviewed"}:
                raise
            return "refused"
        except StaleVersion:
            return "stale"
        return result.outcome

    # --- looking --------------------------------------------------------------------------------

    def _plan(self, model: Model, revision: int) -> Plan:
        return journal_writer.load_revision(model.id, revision).plan

    def _layers(self, model: Model, revision: int) -> tuple[tuple[str, ...], ...]:
        return journal_writer.load_revision(model.id, revision).layers

    def _news(self, model: Model) -> Iterable[News]:
        rows = ExecutionEvent.objects.filter(execution_id=model.id, seq__gt=model.seen)
        for row in rows.order_by("seq").values_list("seq", "kind", "payload", "actor"):
            yield News(*row)

    def _row(self, model: Model) -> Row:
        row = Execution.objects.values("version", "status", "state", "context").get(pk=model.id)
        state = row["state"]
        return Row(
            row["version"],
            row["status"],
            json.dumps(state),
            len(state.get("tasks", {})),
            row["context"],
        )

    def _new_calls(self) -> Iterator[Call]:
        for line in self._ledger:
            call = json.loads(line)
            execution_id, task, attempt = call["key"].split(":")
            assert (execution_id, task) == (call["execution"], call["task"])
            if attempt.startswith("ahead-") or call["what"] == "call":
                yield Call(execution_id, task, attempt, call["key"])

    # --- ends -----------------------------------------------------------------------------------

    def _waits(self, model: Model) -> bool:
        return Execution.objects.filter(pk=model.id, queued_commands__gt=0).exists()

    def _are_found(self, left: list[Model]) -> None:
        ids = [model.id for model in left]
        work = Q(status__in=("PENDING", "RUNNING")) | Q(queued_commands__gt=0)
        wanted = set(Execution.objects.filter(work, pk__in=ids).values_list("pk", flat=True))
        assert wanted <= set(journal_due.take_overdue(patience=1))

    def _check_ahead(self, model: Model, settled: dict[str, Outcome]) -> None:
        speculation_store.clean_up()
        rows = Speculation.objects.filter(execution_id=model.id)
        assert not rows.filter(state__in=("RUNNING", "READY")).exists()
        used = list(rows.filter(state="USED").values_list("task_id", flat=True))
        assert len(used) == len(set(used))
        assert all(settled[name].status != "FAILED" for name in used if name in settled)

    def check_records(self, model: Model) -> None:
        records = HumanReviewRecord.objects.filter(execution_id=model.id)
        assert records.count() == model.records
        for record in records.standing().filter(is_edited=True):
            known = (record.node_id, record.trigger_phase) in model.interventions.verdicts
            if not known and record.hold_id in model.rested:
                continue  # the run ended before it was carried out
            verdict = model.interventions.verdicts[record.node_id, record.trigger_phase]
            assert verdict.edited
            after = record.trigger_phase == "AFTER_EXECUTION"
            laid = verdict.edits if after else {**record.original_data, **verdict.edits}
            assert record.modified_data == laid

    def _settled(self, model: Model) -> dict[str, Outcome]:
        execution = Execution.objects.get(pk=model.id)
        rows = execution.attempts.filter(settled=True)
        return {
            row.task_id: Outcome(
                row.status,
                row.skip_reason,
                row.edited_output if row.is_edited else row.output,
                row.inputs,
            )
            for row in rows
        }

    def _check_commands(self, model: Model) -> None:
        execution = Execution.objects.get(pk=model.id)
        for row in execution.commands.all():
            assert row.taken_at is not None, "a queued command is lost"
            keys = row.command.get("updates", {}).keys()
            assert keys <= model.context.keys() or row.taken_at >= execution.finished_at

    def close(self) -> None:
        self._ledger.close()
        for name in QUEUES:
            django_rq.get_queue(name).empty()
