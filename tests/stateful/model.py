"""A model in plain Python of the possible states of one execution.

The model hears of every request before it is sent (`tried`), of every answer (`applied`, `queued`)
and of every recorded event (`see`), and fails when an event has no request, comes twice, or passes
a hold that nobody decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.stateful.oracle import ESCALATION, Interventions, Verdict
from workflows.engine.plans.dag import Plan
from workflows.engine.protocol.state import ExecutionState

Event = Mapping[str, Any]
FINAL = frozenset({"COMPLETED", "FAILED", "ABORTED"})


@dataclass(frozen=True)
class Answer:
    """A decision that somebody sent."""

    approved: bool
    actor: str
    edits: Any = None
    edited: bool = False
    #: What should be changed, of an answer that sends the output back.
    changes: str = ""

    @property
    def given(self) -> dict[str, Any]:
        """How the answer says what it changes; an output becomes null by a field of its own."""
        if not self.edited:
            return {}
        return {"set_output_null": True} if self.edits is None else {"edits": self.edits}

    @property
    def decision(self) -> str:
        if self.changes:
            return "REQUEST_CHANGES"
        return "APPROVE" if self.approved else "REJECT"


@dataclass
class ModelHold:
    """An open hold."""

    reason: str
    decider: str
    task_id: str | None
    phase: str | None
    quorum: int
    on_timeout: str
    voters: set[str] = field(default_factory=set)
    #: The plan has changed since it was opened, or the context that its layer reads.
    outdated: bool = False
    #: Who decided it, while that can be taken back.
    resting: str = ""


@dataclass
class Model:
    """One execution."""

    id: int
    plan: Plan
    policy: Mapping[str, Any]
    interventions: Interventions
    seen: int = 0
    #: The state that its recorded events add up to, see World._sync.
    replayed: ExecutionState = field(default_factory=ExecutionState)
    open: dict[str, ModelHold] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    expiring: set[str] = field(default_factory=set)
    #: Holds whose answer somebody takes back, and whose time to undo is over.
    withdrawing: set[str] = field(default_factory=set)
    settling: set[str] = field(default_factory=set)
    rested: set[str] = field(default_factory=set)
    sent_back: Counter[str] = field(default_factory=Counter)
    #: Commands that were sent, by kind; those on holds are in `answers`.
    sent: Counter[str] = field(default_factory=Counter)
    tried_updates: set[str] = field(default_factory=set)
    told_updates: set[str] = field(default_factory=set)
    queued_updates: set[str] = field(default_factory=set)
    tried_tasks: set[str] = field(default_factory=set)
    context: dict[str, Any] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    succeeded: set[str] = field(default_factory=set)
    tries: Counter[str] = field(default_factory=Counter)
    #: The plan's revisions, and before them those that a fork took its tasks over from.
    plans: list[Plan] = field(default_factory=list)
    ancestors: list[Plan] = field(default_factory=list)
    #: Tasks that a command skips and that have not begun; the same when each layer was closed.
    skipped: set[str] = field(default_factory=set)
    skipped_at: dict[int, set[str]] = field(default_factory=dict)
    layer: int = -1
    signed: bool = False
    records: int = 0
    final: str = ""
    #: Whether a plan change waits for people, and the hold with which they have just accepted one.
    proposal: bool = False
    accepted: str = ""
    spared: int = 0

    def __post_init__(self) -> None:
        self.plans.append(self.plan)

    # --- events ---------------------------------------------------------------------------------

    def see(self, seq: int, kind: str, payload: Event, actor: str) -> None:
        """One recorded event, in order."""
        assert seq == self.seen + 1, "events are contiguous"
        assert not self.final, f"{kind} after the end"
        self.seen = seq
        handler = getattr(self, f"_{kind}", None)
        if handler is not None:
            handler(payload, actor)

    def _hold_opened(self, event: Event, actor: str) -> None:
        assert event["hold_id"] not in self.answers, "a hold opens once"
        self.answers[event["hold_id"]] = []
        self.open[event["hold_id"]] = ModelHold(
            event["reason"],
            event["decider"],
            event["task_id"],
            event["phase"],
            event["quorum"],
            event["on_timeout"],
        )

    def _hold_voted(self, event: Event, actor: str) -> None:
        hold = self.open[event["hold_id"]]
        assert any(each.approved and each.actor == actor for each in self._answers(event))
        assert actor not in hold.voters
        hold.voters.add(actor)
        assert len(hold.voters) < hold.quorum
        self.records += 1

    def _hold_answered(self, event: Event, actor: str) -> None:
        hold = self.open[event["hold_id"]]
        assert not hold.resting, "one hold is answered twice"
        answer = self._wanted(event, actor)
        assert (answer.approved, answer.edited) == (
            event["decision"] == "APPROVE",
            event["edited"],
        )
        hold.resting = actor
        self.rested.add(event["hold_id"])
        self.records += 1

    def _hold_withdrawn(self, event: Event, actor: str) -> None:
        hold = self.open[event["hold_id"]]
        assert event["hold_id"] in self.withdrawing, "nobody took it back"
        assert hold.resting == event["voter"] == actor
        hold.resting = ""
        self.records += 1

    def _wanted(self, event: Event, actor: str) -> Answer:
        return next(
            each
            for each in reversed(self._answers(event))
            if each.actor == actor and each.decision == event["decision"]
        )

    def _hold_decided(self, event: Event, actor: str) -> None:
        hold = self.open.pop(event["hold_id"])
        approved = event["decision"] == "APPROVE"
        assert bool(hold.resting) == event["answered"]
        if event["answered"]:
            assert event["hold_id"] in self.settling, "carried out before its time"
            assert hold.resting == actor
            self.records -= 1  # recorded when it was answered
        if event["by_timeout"]:
            assert event["hold_id"] in self.expiring
            assert approved == (hold.on_timeout in ("approve", "continue"))
        elif hold.decider == "agent":
            assert self.sent["continue"] or self.sent["replan"]
        else:
            changes = event["comment"] if event["decision"] == "REQUEST_CHANGES" else ""
            wanted = Answer(approved, actor, event["edits"], event["edited"], changes)
            assert wanted in self._answers(event), f"nobody asked for {wanted}"
            if approved:
                assert len(hold.voters | {actor}) == hold.quorum
        self.records += hold.decider == "human"
        if event["decision"] == "REQUEST_CHANGES":
            self._sent_back(event["task_id"])
            return
        if hold.reason == "replan_review" and approved:
            self.accepted = event["hold_id"]
        self._decided(hold, Verdict(approved, event["edits"], event["edited"]))

    def _sent_back(self, name: str) -> None:
        """It runs once more, and what it gives is decided anew; nobody has read it."""
        self.ended[name] -= 1
        self.succeeded.discard(name)
        self.sent_back[name] += 1
        assert self.sent_back[name] <= 3, "sent back without end"

    def _answers(self, event: Event) -> list[Answer]:
        return self.answers[event["hold_id"]]

    def _decided(self, hold: ModelHold, verdict: Verdict) -> None:
        if hold.task_id:
            self.interventions.verdicts[hold.task_id, hold.phase or ESCALATION] = verdict
        elif hold.reason == "layer_approval":
            self.signed = verdict.approved and not hold.outdated
        elif hold.reason == "replan_review":
            assert self.proposal
            self.proposal = False

    def _hold_expired(self, event: Event, actor: str) -> None:
        assert event["hold_id"] in self.expiring
        # What follows is the end of the run, not a decision on the hold: it has its record here.
        self.records += event["on_timeout"] == "abort" and (
            self.open[event["hold_id"]].decider == "human"
        )

    def _review_spared(self, event: Event, actor: str) -> None:
        """A rule decides in a person's stead, only where the plan says so and it is safe."""
        task = self.plan.by_id[event["task_id"]]
        review = task.human_review
        assert review is not None
        assert review.skip_when == "`true`", "nobody said that this review may be spared"
        before = event["phase"] == "BEFORE_EXECUTION"
        assert not (before and goes_beyond_reading(task)), "an effect is never spared its review"
        assert not self.sent_back[task.id], "what was sent back is always reviewed"
        assert (task.id, event["phase"]) not in self.interventions.verdicts, (
            "spared what was decided"
        )
        self.interventions.verdicts[task.id, event["phase"]] = Verdict(approved=True)
        self.spared += 1

    def _layer_started(self, event: Event, actor: str) -> None:
        assert not self.open, "a layer starts past an open hold"
        assert not self.proposal, "a layer starts past a plan change that nobody decided"
        assert event["layer"] == self.layer + 1
        runs = set(event["tasks"]) - set(event["skips"])
        if runs and self.needs_signature(event["tasks"]):
            assert self.signed, "a layer starts without its signature"
        self.layer, self.signed = event["layer"], False
        assert not runs & self.skipped, "a task runs that a command skips"
        by_command = {name for name, why in event["skips"].items() if why == "command"}
        self._pass_over(by_command)
        for name in event["skips"]:
            self._end(name)

    def _layer_closed(self, event: Event, actor: str) -> None:
        self.skipped_at[event["layer"]] = set(self.skipped)

    def _layer_skip_requested(self, event: Event, actor: str) -> None:
        assert self.sent["skip_layer"]
        self.skipped |= set(event["tasks"])

    def _pass_over(self, names: set[str]) -> None:
        assert names <= self.skipped, "a task is skipped that nobody skipped"
        self.skipped -= names
        self.interventions.passed_over |= names

    def _layer_skipped(self, event: Event, actor: str) -> None:
        assert not self.open
        assert not self.proposal
        assert event["layer"] == self.layer + 1
        reviewed = [name for name in event["tasks"] if _phase(self.plan.by_id[name])]
        assert not reviewed, "a layer with reviews is skipped"
        assert not self.needs_signature(event["tasks"]), "a layer that people sign is skipped"
        self.layer, self.signed = event["layer"], False
        self._pass_over(set(event["tasks"]))
        for name in event["tasks"]:
            self._end(name)

    def _task_succeeded(self, event: Event, actor: str) -> None:
        self._tried(event)
        self.succeeded.add(event["task_id"])
        self._end(event["task_id"])

    def _task_errored(self, event: Event, actor: str) -> None:
        self._tried(event)
        if event["retry_at"] is None:
            self._end(event["task_id"])

    def _tried(self, event: Event) -> None:
        name = event["task_id"]
        assert event["attempt"] == self.tries[name] + 1, "one applied result per attempt"
        self.tries[name] += 1
        self.may_run(name)

    def _end(self, name: str) -> None:
        assert name not in self.interventions.inherited
        self.ended[name] += 1
        assert self.ended[name] == 1, f"{name} settled twice"

    def _plan_revised(self, event: Event, actor: str) -> None:
        assert self.sent[event["cause"]]
        assert set(event["added"]) <= self.tried_tasks
        assert not event["removed"]
        if self.policy.get("replan_review", {}).get("enabled"):
            assert event["hold_id"] == self.accepted, "the plan changes past its review"
        self.accepted = ""
        self.signed = False
        for hold in self.open.values():
            hold.outdated = True

    def _plan_proposed(self, event: Event, actor: str) -> None:
        assert self.sent[event["cause"]]
        assert not self.proposal, "one plan change at a time"
        assert self.policy["replan_review"]["enabled"]
        self.proposal = True

    def _context_updated(self, event: Event, actor: str) -> None:
        for key, value in event["updates"].items():
            assert key in self.tried_updates
            assert key not in self.context, "an update is applied once"
            self.context[key] = value

    def _execution_completed(self, event: Event, actor: str) -> None:
        self._over("COMPLETED")

    def _execution_failed(self, event: Event, actor: str) -> None:
        self._over("FAILED")

    def _execution_aborted(self, event: Event, actor: str) -> None:
        self._over("ABORTED")

    def _over(self, status: str) -> None:
        assert status == "ABORTED" or not self.open, "a run ends past an open hold"
        self.final, self.open = status, {}
        self.interventions.aborted = status == "ABORTED"

    def needs_signature(self, names: list[str]) -> bool:
        """Whether the policy asks people before a layer of these tasks."""
        hil = self.policy.get("hil", {})
        if not hil.get("enabled"):
            return False
        if hil.get("approval_required", "always") == "always":
            return True
        return any(goes_beyond_reading(self.plan.by_id[name]) for name in names)

    # --- what a task may do ---------------------------------------------------------------------

    def may_run(self, name: str) -> None:
        """Fails unless every hold before a call of this task was decided in its favour."""
        task = self.plan.by_id[name]
        if _phase(task) == "BEFORE_EXECUTION":
            verdict = self.interventions.verdicts.get((name, "BEFORE_EXECUTION"))
            assert verdict is not None, f"{name} ran past its hold"
            assert verdict.approved, f"{name} ran although it was rejected"
        for need in task.needs & self.succeeded:
            if _phase(self.plan.by_id[need]) == "AFTER_EXECUTION":
                verdict = self.interventions.verdicts.get((need, "AFTER_EXECUTION"))
                assert verdict is not None, f"{name} read {need} past its hold"

    def revised(self, plan: Plan) -> None:
        """The plan as it is now."""
        self.plan = plan
        self.plans.append(plan)


def goes_beyond_reading(task: Any) -> bool:
    return str(task.target).endswith(".effect")


def _phase(task: Any) -> str:
    return task.human_review.trigger_phase.value if task.human_review else ""
