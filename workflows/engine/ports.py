"""Protocols of the services that the loop uses; adapters outside the engine implement them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .dag import CapabilityTask, CodeTask, Plan, Revision, ToolTask
from .events import Event
from .policy import Policy
from .state import ExecutionState, SkipReason
from .status import TaskStatus
from .task_errors import PermissionEscalationNeeded, TaskFailed

__all__ = [
    "AgentAnswer",
    "AgentQuestion",
    "Agents",
    "Busy",
    "Failure",
    "Journal",
    "LeaseLost",
    "NewPlan",
    "PermissionEscalationNeeded",
    "Planner",
    "Ports",
    "Program",
    "QueuedCommand",
    "Run",
    "Settled",
    "SpeculationOutcome",
    "StaleVersion",
    "Success",
    "TaskCall",
    "TaskFailed",
    "TaskResult",
    "TaskRunner",
    "Watch",
]


class StaleVersion(Exception):
    """The execution changed after the sender of the command read it."""

    def __init__(self, message: str = "the execution has moved on") -> None:
        super().__init__(message)


class Busy(Exception):
    """A worker holds the lease: a command has to be queued."""


class LeaseLost(Exception):
    """Another worker holds this execution now; this worker's uncommitted events are lost."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How an earlier task ended.  `output` is what later tasks read (after a reviewer's edit).

    `inputs` is what it ran with.
    """

    status: TaskStatus
    output: Any = None
    skip: SkipReason | None = None
    inputs: Any = None

    @property
    def is_failure(self) -> bool:
        """Whether the task failed, was rejected, or was skipped because an earlier task failed."""
        failed = self.status in (TaskStatus.FAILED, TaskStatus.REJECTED)
        return failed or self.skip is SkipReason.UPSTREAM_FAILED


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One task, ready to run.  `key` is stable over crashes: tools may use it for idempotency."""

    task: ToolTask | CodeTask | CapabilityTask
    inputs: dict[str, Any]
    attempt: int
    key: str
    execution_id: str
    grants: tuple[dict[str, Any], ...] = ()
    ceiling: str = "trusted"
    #: Whether the policy lets work be done ahead: there may be a result already.
    speculates: bool = False
    #: What reviewers asked to be changed in earlier outputs of it, oldest first.
    feedback: tuple[str, ...] = ()
    #: Digest of `inputs`, for a task that is reviewed before it runs; else "".
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Success:
    output: Any
    duration_ms: float
    logs: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    duration_ms: float = 0
    retryable: bool = False
    logs: str = ""


@dataclass(frozen=True, slots=True)
class SpeculationOutcome:
    """What became of a result that was worked out while somebody decided.

    `hit`: it is the task's result now, and saved `seconds`.  Otherwise `reason` says why it was
    dropped, and the seconds were wasted.
    """

    hit: bool
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult:
    call: TaskCall
    outcome: Success | Failure | PermissionEscalationNeeded
    ahead: SpeculationOutcome | None = None


class Watch(Protocol):
    """Called now and then while tasks run: keeps the lease alive.

    Returns True when running tasks should stop (an abort was asked for); raises LeaseLost.
    """

    def __call__(self) -> bool: ...


class TaskRunner(Protocol):
    """Runs tasks side by side."""

    def run(self, calls: Sequence[TaskCall], watch: Watch) -> Iterator[Sequence[TaskResult]]:
        """Yield results in batches: what finished within the commit window comes together.

        An empty batch means that the window passed with tasks still running.
        """


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """The unfiltered data sent to an agent at a layer boundary."""

    agent: str
    execution_id: str
    layer: int
    total_layers: int
    results: Mapping[str, Settled]
    next_layer: tuple[str, ...]
    context: Mapping[str, Any]
    inputs: Mapping[str, Any]
    conversation: tuple[Mapping[str, Any], ...]
    decisions: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    decision: Literal["continue", "replan", "abort"]
    reason: str = ""
    requirement: str = ""
    available_context: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[Mapping[str, str], ...] = ()


class Agents(Protocol):
    """Asks a registered agent; raises TaskFailed when the answer is malformed or late."""

    def ask(self, question: AgentQuestion, watch: Watch) -> AgentAnswer: ...


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A planner's answer.  `why`: added task → {"tool", "confidence", "reasons"}."""

    plan: Plan
    why: Mapping[str, Any] = field(default_factory=dict)


class Planner(Protocol):
    """Makes a new plan out of a running one."""

    def replan(
        self,
        *,
        plan: Plan,
        settled: Mapping[str, Settled],
        begun: frozenset[str],
        requirement: str,
        context: Mapping[str, Any],
        inputs: Mapping[str, Any],
    ) -> NewPlan:
        """A plan that keeps every task in `begun`; raises TaskFailed with the reason if none."""


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that was queued until the layer boundary, with its actor and source."""

    id: int
    command: Any
    actor: str
    source: str


class Run(Protocol):
    """One execution, opened for writing by one holder."""

    @property
    def state(self) -> ExecutionState: ...

    @property
    def revision(self) -> Revision: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def inputs(self) -> Mapping[str, Any]: ...

    @property
    def context(self) -> Mapping[str, Any]: ...

    @property
    def execution_id(self) -> str: ...

    @property
    def queued(self) -> int:
        """The number of queued commands."""

    def record(self, *events: Event) -> None:
        """Fold events into the state and keep them for the next commit.

        Each moves the version on by one.  A second change of the status commits what was recorded
        before it: one step changes the status once.  It also writes at most one event about a hold
        (its opening, a vote, a decision and so on).
        """

    def commit(self) -> None:
        """Make everything recorded durable, in one transaction; raises LeaseLost/StaleVersion.

        Guarded by the version and, for a worker, by its fence: a step of somebody who was overtaken
        raises LeaseLost (a worker) or StaleVersion (a command) and writes nothing at all.  The run
        is of no more use then.
        """

    def log_command(self, command: object, actor: str, source: str) -> None:
        """Add the applied command to the command log with the next commit.

        A journal without a command log does nothing here.
        """

    def publish(self, *, at_once: bool) -> None:
        """Notify subscribers of the committed events; commands do so after enqueueing a worker."""

    def publish_started(self, task_ids: Sequence[str]) -> None:
        """Notify subscribers that these tasks are running; nothing is recorded."""

    def settled(self, task_ids: Sequence[str]) -> Mapping[str, Settled]:
        """Return how the named tasks ended, including tasks of the current layer.

        A task that has not ended, waits for a retry or was sent back is left out.  Results count as
        soon as they are recorded, decisions about them once they are committed.  `inputs` are
        promised for tasks of the current layer that succeeded.
        """

    def take_commands(self) -> Iterator[QueuedCommand]:
        """Yield the queued commands, oldest first; the next commit removes them from the queue.

        If this worker is lost before that, the next worker takes them again.
        """

    def acting_as(self, actor: str, source: str) -> AbstractContextManager[None]:
        """Record the events inside the block with this actor and source."""

    def conversation(self) -> tuple[Mapping[str, Any], ...]:
        """Messages so far, oldest first."""

    def decisions(self) -> tuple[Mapping[str, Any], ...]:
        """What people and agents have decided so far, oldest first; see `decisions.decision_of`.

        Those of the executions that a fork comes from are first, up to its checkpoint.  Each names
        its `execution_id`.
        """

    def now(self) -> float:
        """Seconds since the epoch by the database's clock."""

    def watch(self) -> bool:
        """Keep the lease; see Watch.

        A journal may look at the lease and at waiting commands only now and then (on PostgreSQL,
        three times a second).
        """

    def slice_over(self) -> bool:
        """Return whether the worker's time slice is over."""

    def rest(self, until: float | None) -> bool:
        """Commit and release the lease until `until`; return False if commands have arrived.

        The lease is kept then.  With `until` None the execution may be claimed at once, if it has
        work to do.
        """


class Journal(Protocol):
    """The only writer of executions.

    What it stores are events, and beside them the state that the events add up to
    (`evolve.replay`), the context, plan revisions, how tasks ended, open holds and checkpoints; one
    commit writes all of them or none.  Every implementation passes
    `tests/integration/workflows/test_journal_conformance.py`.

    Left to each implementation are how executions are made, forked and sent commands, who is
    notified, how many checkpoints are kept, and what happens to a lease when the holder's block
    raises (it is given back after a while at the latest).
    """

    def claim(self, execution_id: str) -> AbstractContextManager[Run | None]:
        """A lease on an execution that has work to do; None when it has none, or it is taken.

        There is work where the status is PENDING or RUNNING and no rest lasts, or commands wait.
        A lease runs out unless it is renewed (by a commit or by `watch`); it ends with the block.
        """

    def open(
        self, execution_id: str, *, expected_version: int | None
    ) -> AbstractContextManager[Run]:
        """An execution at rest, for one command; raises StaleVersion, or Busy when it is held."""


@dataclass(frozen=True, slots=True)
class Program:
    """The code of a capability."""

    language: str
    code: str


def do_nothing_at_rest(run: Run) -> None:
    """Do nothing; for ports without speculation."""


def no_program(capability: str) -> Program | None:
    """Return None; for ports without capabilities."""
    return None


@dataclass(frozen=True, slots=True)
class Ports:
    """The services that a step uses."""

    journal: Journal
    runner: TaskRunner
    agents: Agents
    planner: Planner
    summarise: Callable[[Run], str]
    max_replans: int = 3
    max_failed_replans: int = 10
    abandoned_ttl_seconds: float = 3600
    program: Callable[[str], Program | None] = no_program
    #: Called when the lease is given back; must not raise, and holds nobody up.
    at_rest: Callable[[Run], None] = do_nothing_at_rest
