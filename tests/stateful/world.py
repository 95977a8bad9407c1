"""Real services on PostgreSQL, with a model of every execution beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.db.models.functions import Now

from reviews import undo
from reviews.conflicts import Conflict
from reviews.edits import ReviewInvalid
from reviews.models import HumanReviewRecord
from reviews.services import decide
from tests.stateful.model import FINAL, Answer, Model
from tests.stateful.oracle import Outcome, Told, expected, status_fits
from tests.stateful.plans import INPUTS
from workflows import aside, journal, journal_time
from workflows.engine.decide import Refused
from workflows.engine.ports import StaleVersion
from workflows.jobs import run_to_rest
from workflows.models import Checkpoint, CommandLog, Execution, ExecutionEvent, Hold, Speculation
from workflows.services import (
    fork_execution,
    parse_command,
    start_execution,
    submit_command,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The one tool of `tools` with the read-only mark.
READER = "statekit.value"
EPOCH = "2000-01-01T00:00Z"
#: Bytes of control state: a base, and so many per task of the layer and per open hold.
STATE_BASE, STATE_PER_TASK, STATE_PER_HOLD = 700, 900, 400


class World:
    """The executions of one example."""

    def __init__(self, ledger: Path, reviewers: dict[str, User]) -> None:
        os.environ["HOLDPOINT_TEST_LEDGER"] = str(ledger)
        self._ledger = ledger.open("a+")
        self._reviewers = reviewers
        self._keys: dict[tuple[str, str, str], str] = {}
        self.models: list[Model] = []

    # --- beginnings -----------------------------------------------------------------------------

    def start(self, plan: dict[str, Any], policy: dict[str, Any]) -> None:
        execution = start_execution(actor=None, plan=plan, policy=policy, inputs=INPUTS)
        self._add(execution, Told(inputs=INPUTS))

    def fork(self, parent: Model, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint: what had ended until then has ended there too."""
        ends = expected(parent.plan, parent.told)
        layers = journal.load_revision(parent.id, checkpoint.revision).layers
        inherited = {name: ends[name] for layer in layers[: checkpoint.layer + 1] for name in layer}
        execution = fork_execution(
            execution=Execution.objects.get(pk=parent.id), checkpoint=checkpoint, actor=None
        )
        model = self._add(execution, Told(inputs=INPUTS, inherited=inherited))
        own = range(1, checkpoint.revision + 1)
        revisions = [journal.load_revision(parent.id, number).plan for number in own]
        model.plans = [*parent.ancestors, *revisions, model.plan]
        model.ancestors = [*parent.ancestors, *revisions]
        model.layer = checkpoint.layer
        model.context = dict(checkpoint.context)
        self.sync(model)

    def _add(self, execution: Execution, told: Told) -> Model:
        plan = journal.load_revision(execution.pk, 1).plan
        model = Model(execution.pk, plan, execution.policy, told)
        self.models.append(model)
        return model

    def checkpoints(self, model: Model) -> list[Checkpoint]:
        return list(Checkpoint.objects.filter(execution_id=model.id).order_by("layer"))

    # --- requests -------------------------------------------------------------------------------

    def is_held(self, model: Model) -> bool:
        """Whether some worker holds a lease that has not run out."""
        rows = Execution.objects.filter(pk=model.id, lease_until__gte=Now())
        return rows.exists()

    def open_holds(self, model: Model, decider: str = "human") -> list[Hold]:
        rows = Hold.objects.filter(execution_id=model.id, status="OPEN", decider=decider)
        return list(rows.order_by("opened_seq"))

    def decide(
        self,
        model: Model,
        hold: Hold,
        *,
        approved: bool,
        who: str = "ann",
        decide: Callable[..., Any] = decide,
        changes: str = "",
        undo_seconds: float | None = None,
        **edits: Any,
    ) -> None:
        """A reviewer answers; whatever comes of it, only one answer can be recorded.

        With `edits=...` the answer changes what was shown, with `changes` it is sent back with
        these words, and with `undo_seconds` it rests first.
        """
        self.sync(model)
        answer = Answer(approved, who, edits.get("edits"), bool(edits), changes)
        model.answers[hold.pk].append(answer)
        more = {} if undo_seconds is None else {"undo_seconds": undo_seconds}
        if changes:
            more["comment"] = changes
        free = not self.is_held(model)
        voted = who in model.open[hold.pk].voters
        try:
            decide(
                hold_id=hold.pk,
                user=self._reviewers[who],
                decision=answer.decision,
                version=model.seen,
                source="test",
                **more,
                **edits,
            )
        except Conflict:
            won = False
        else:
            won = True
        assert won == (free and not voted)
        self.sync(model)

    def take_back(self, model: Model, hold_id: str) -> None:
        """Whoever decided takes it back: the hold is open, unless a worker holds the run."""
        self.sync(model)
        model.withdrawing.add(hold_id)
        free, who = not self.is_held(model), model.open[hold_id].resting
        try:
            undo.withdraw(hold_id=hold_id, user=self._reviewers[who], source="test")
        except Conflict:
            won = False
        else:
            won = True
        assert won == free
        self.sync(model)
        assert bool(model.open[hold_id].resting) != won

    def end_time_to_undo(self, *models: Model) -> None:
        """The time to undo what rests is over; the sweeper has not come by yet."""
        for model in models:
            rows = Hold.objects.filter(execution_id=model.id, undo_until__isnull=False)
            model.settling |= set(rows.values_list("pk", flat=True))
            rows.update(undo_until=EPOCH)

    def decide_badly(self, model: Model, hold: Hold, edits: Any) -> None:
        """An edit that nobody can take leaves all as it was, and a line in the command log."""
        self.sync(model)
        lines = CommandLog.objects.filter(execution_id=model.id).exclude(outcome="applied")
        before, logged = model.seen, lines.count()
        try:
            decide(
                hold_id=hold.pk,
                user=self._reviewers["ann"],
                decision="APPROVE",
                version=model.seen,
                edits=edits,
                source="test",
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
                hold_id=hold.pk,
                user=self._reviewers["ann"],
                decision="APPROVE",
                version=model.seen - 1,
                source="test",
            )
        except Conflict:
            self.sync(model)
        else:
            raise AssertionError("a stale answer was taken")

    def command(self, model: Model, data: dict[str, Any], version: int | None = None) -> str:
        """applied, queued, refused or stale."""
        model.sent[data["kind"]] += 1
        updates = set(data.get("updates", ()))
        model.tried_updates |= updates
        try:
            result = submit_command(
                execution_id=model.id,
                command=parse_command(data),
                actor="operator",
                source="test",
                version=version,
            )
        except Refused:
            return "refused"
        except StaleVersion:
            return "stale"
        (model.told_updates if result.outcome == "applied" else model.queued_updates).update(
            updates
        )
        self.sync(model)
        return result.outcome

    def expire_holds(self, model: Model) -> None:
        """The deadlines of the open holds are over; the sweeper has not come by yet."""
        late = Hold.objects.filter(execution_id=model.id, status="OPEN", expires_at__isnull=False)
        model.expiring |= set(late.values_list("pk", flat=True))
        late.update(expires_at=Now())

    def let_time_pass(self, *models: Model) -> None:
        """Leases run out, and nobody has been sent for in ages."""
        rows = Execution.objects.filter(pk__in=[model.id for model in models or self.models])
        rows.filter(lease_until__isnull=False).update(lease_until=EPOCH)
        rows.filter(wake_at__isnull=False).update(wake_at=EPOCH)
        rows.update(dispatched_at=EPOCH)

    # --- looking --------------------------------------------------------------------------------

    def sync(self, *models: Model) -> None:
        """Tell the models what was recorded, and hold the records against them."""
        for model in models or self.models:
            self._sync(model)
        self._read_ledger()

    def _sync(self, model: Model) -> None:
        news = ExecutionEvent.objects.filter(execution_id=model.id, seq__gt=model.seen)
        for seq, kind, payload, actor in news.order_by("seq").values_list(
            "seq", "kind", "payload", "actor"
        ):
            if kind == "plan_revised":
                model.revised(journal.load_revision(model.id, payload["revision"]).plan)
            model.see(seq, kind, payload, actor)
        row = Execution.objects.values("version", "status", "state", "context").get(pk=model.id)
        assert row["version"] == model.seen, "the version is the number of events"
        assert (row["status"] if row["status"] in FINAL else "") == model.final
        assert row["context"] == model.context
        assert model.told_updates <= model.context.keys(), "an applied update is gone"
        width = len(row["state"].get("tasks", {}))
        rests = sum(bool(hold.resting) for hold in model.open.values())
        bound = STATE_BASE + STATE_PER_TASK * width + STATE_PER_HOLD * (len(model.open) + rests)
        assert len(json.dumps(row["state"])) <= bound, "the control state grows"

    def _read_ledger(self) -> None:
        """Every call of a tool was allowed, and repetitions carry the key of their attempt."""
        by_id = {str(model.id): model for model in self.models}
        for line in self._ledger:
            call = json.loads(line)
            execution_id, task, attempt = call["key"].split(":")
            assert (execution_id, task) == (call["execution"], call["task"])
            if attempt.startswith("ahead-"):
                # Out of turn, so only what reads; whether its result counts is seen in the events.
                assert by_id[execution_id].plan.by_id[task].target == READER
            elif execution_id in by_id and call["what"] == "call":
                by_id[execution_id].may_run(task)
                key = self._keys.setdefault((execution_id, task, attempt), call["key"])
                assert key == call["key"]

    # --- ends -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Once all holds are decided, every execution comes to its end, found by the sweeper."""
        for _ in range(40):
            self.sync()
            left = [model for model in self.models if not model.final or self._waits(model)]
            if not left:
                break
            self.end_time_to_undo(*left)
            undo.settle_due()
            self.sync()
            self.let_time_pass(*left)
            self._are_found(left)
            for model in left:
                run_to_rest(model.id)
                self.sync(model)
                self._decide_all(model)
        assert all(model.final for model in self.models), "lost"
        for model in self.models:
            self._check_end(model)

    def _waits(self, model: Model) -> bool:
        return Execution.objects.filter(pk=model.id, queued_commands__gt=0).exists()

    def _are_found(self, left: list[Model]) -> None:
        """The sweeper sees all work that nobody holds."""
        ids = [model.id for model in left]
        work = Q(status__in=("PENDING", "RUNNING")) | Q(queued_commands__gt=0)
        wanted = set(Execution.objects.filter(work, pk__in=ids).values_list("pk", flat=True))
        assert wanted <= set(journal_time.take_overdue(patience=1))

    def _decide_all(self, model: Model) -> None:
        for hold in self.open_holds(model):
            if model.final:
                return
            for who in self._reviewers:
                if hold.pk in model.open:
                    self.decide(model, hold, approved=True, who=who)
        if self.open_holds(model, "agent"):
            assert self.command(model, {"kind": "continue"}) == "applied"

    def _check_end(self, model: Model) -> None:
        ends = expected(model.plan, model.told)
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

    def _check_ahead(self, model: Model, settled: dict[str, Outcome]) -> None:
        """What was used is the task's result, once; nothing else is left."""
        aside.tidy()
        rows = Speculation.objects.filter(execution_id=model.id)
        assert not rows.filter(state__in=("RUNNING", "READY")).exists()
        used = list(rows.filter(state="USED").values_list("task_id", flat=True))
        assert len(used) == len(set(used))
        assert all(settled[name].status != "FAILED" for name in used if name in settled)

    def check_records(self, model: Model) -> None:
        """One record per decision of a person, or of time in a person's stead."""
        records = HumanReviewRecord.objects.filter(execution_id=model.id)
        assert records.count() == model.records
        for record in records.standing().filter(is_edited=True):
            known = (record.node_id, record.trigger_phase) in model.told.verdicts
            if not known and record.hold_id in model.rested:
                continue  # the run ended before it was carried out
            verdict = model.told.verdicts[record.node_id, record.trigger_phase]
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
        """Every queued command was taken: applied, or taken after the end."""
        execution = Execution.objects.get(pk=model.id)
        for row in execution.commands.all():
            assert row.taken_at is not None, "a queued command is lost"
            keys = row.command.get("updates", {}).keys()
            assert keys <= model.context.keys() or row.taken_at >= execution.finished_at

    def close(self) -> None:
        self._ledger.close()
