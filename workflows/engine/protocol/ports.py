"""Protocols of the services that the loop uses; adapters outside the engine implement them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from workflows.engine.plans.dag import AnyTask, Plan, Revision
from workflows.engine.plans.task_errors import PermissionEscalationNeeded, TaskFailed
from workflows.engine.policy.policies import Policy
from workflows.engine.values.reasons import Reason

from .actors import Actor
from .events import Event
from .state import ExecutionState, RemoteCall, SkipReason
from .status import TaskStatus

__all__ = [
    "AgentAnswer",
    "AgentQuestion",
    "Agents",
    "Busy",
    "CapabilityCode",
    "Failure",
    "FinishedTask",
    "Heartbeat",
    "Journal",
    "LeaseLost",
    "NewPlan",
    "PermissionEscalationNeeded",
    "Planner",
    "Ports",
    "QueuedCommand",
    "Run",
    "SpeculationOutcome",
    "StaleVersion",
    "Submitted",
    "Success",
    "TaskCall",
    "TaskFailed",
    "TaskResult",
    "TaskRunner",
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
class FinishedTask:
    """How a task ended: its status, its inputs, and its output after any edit by a reviewer."""

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

    task: AnyTask
    inputs: dict[str, Any]
    attempt: int
    key: str
    execution_id: str
    grants: tuple[dict[str, Any], ...] = ()
    ceiling: str = "trusted"
    #: Whether the policy allows speculation: there may be a speculative result already.
    speculates: bool = False
    #: Comments of reviewers who sent earlier outputs of the task back, oldest first.
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
    """How a task failed; `reason` is the message as a code, where Holdpoint wrote it."""

    message: str
    duration_ms: float = 0
    retryable: bool = False
    logs: str = ""
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A remote runner accepted the task under `handle`, and runs it for `seconds` at most."""

    runner: str
    handle: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SpeculationOutcome:
    """How a speculative result was used.

    With `hit` it became the task's result and saved `seconds`.  Otherwise it was dropped for
    `reason`, and the seconds were wasted.
    """

    hit: bool
    seconds: float
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class TaskResult:
    call: TaskCall
    outcome: Success | Failure | Submitted | PermissionEscalationNeeded
    speculation: SpeculationOutcome | None = None


class Heartbeat(Protocol):
    """Called repeatedly while tasks run: renews the lease.

    Returns True if the running tasks must stop because an abort was requested.

    Raises:
        LeaseLost: another worker holds the execution.
    """

    def __call__(self) -> bool: ...


class TaskRunner(Protocol):
    """Runs tasks in parallel."""

    def run(
        self, calls: Sequence[TaskCall], heartbeat: Heartbeat
    ) -> Iterator[Sequence[TaskResult]]:
        """Yield results in batches: tasks that finish within one commit window share a batch.

        An empty batch means that no task finished within the window.
        """


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """The unfiltered data sent to an agent at a layer boundary."""

    agent: str
    execution_id: str
    layer: int
    total_layers: int
    results: Mapping[str, FinishedTask]
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
    """Asks a registered agent; raises TaskFailed if the answer is malformed or late."""

    def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer: ...


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A planner's answer.  `why`: added task → {"tool", "confidence", "reasons", "questions"}."""

    plan: Plan
    why: Mapping[str, Any] = field(default_factory=dict)


class Planner(Protocol):
    """Creates a new plan from a running one."""

    def replan(
        self,
        *,
        plan: Plan,
        finished: Mapping[str, FinishedTask],
        begun: frozenset[str],
        requirement: str,
        context: Mapping[str, Any],
        inputs: Mapping[str, Any],
        execution_id: str,
    ) -> NewPlan:
        """Return a plan that keeps every task in `begun`.

        Raises:
            TaskFailed: the planner found no plan; the message says why.
        """


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that was queued until the layer boundary, with its actor and source."""

    id: int
    command: Any
    actor: Actor
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

        Each event increments the version.  Before a second change of the status, the events
        recorded so far are committed, because one step changes the status at most once.  A step
        also writes at most one event about each hold (its opening, a vote, a decision and so on).
        """

    def commit(self) -> None:
        """Write all recorded events in one transaction.

        The write is guarded by the version and, for a worker, by its fence.  If another writer was
        faster, nothing is written and this run cannot be used any more.

        Raises:
            LeaseLost: another worker holds the execution.
            StaleVersion: a command found a newer version.
        """

    def log_command(self, command: object, actor: Actor, source: str) -> None:
        """Add the applied command to the command log with the next commit.

        A journal without a command log does nothing here.
        """

    def publish(self, *, at_once: bool) -> None:
        """Notify subscribers of the committed events; commands do so after enqueueing a worker."""

    def publish_started(self, task_ids: Sequence[str]) -> None:
        """Notify subscribers that these tasks are running; nothing is recorded."""

    def finished_tasks(self, task_ids: Sequence[str]) -> Mapping[str, FinishedTask]:
        """Return how the named tasks ended, including tasks of the current layer.

        A task that has not ended, waits for a retry or was sent back is left out.  Results are
        visible once they are recorded, decisions about them once they are committed.  `inputs` are
        set at least for tasks of the current layer that succeeded.
        """

    def take_commands(self) -> Iterator[QueuedCommand]:
        """Yield the queued commands, oldest first; the next commit removes them from the queue.

        If the worker dies before that commit, the next worker takes them again.
        """

    def acting_as(self, actor: Actor, source: str) -> AbstractContextManager[None]:
        """Record the events inside the block with this actor and source."""

    def conversation(self) -> tuple[Mapping[str, Any], ...]:
        """Messages so far, oldest first."""

    def decisions(self) -> tuple[Mapping[str, Any], ...]:
        """Return the decisions so far, oldest first; see `decision_history.decision_of`.

        A fork's list starts with the decisions of its ancestors up to its checkpoint.  Each
        decision names its `execution_id`.
        """

    def now(self) -> float:
        """Return the seconds since the epoch by the database's clock."""

    def heartbeat(self) -> bool:
        """Renew the lease; see Heartbeat.

        A journal may limit how often it reads the lease and the queued commands (on PostgreSQL:
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

    It stores the events, the state that they fold to (`evolve.replay`), the context, plan
    revisions, finished tasks, open holds and checkpoints; one commit writes all of them or none.
    Every implementation passes `tests/integration/workflows/journal/test_journal_conformance.py`.

    Each implementation chooses how executions are created, forked and sent commands, who is
    notified, how many checkpoints are kept, and when a lease ends if the holder's block raises (at
    the latest when it expires).
    """

    def claim(self, execution_id: str) -> AbstractContextManager[Run | None]:
        """Lease an execution; yield None if it has no work or another worker holds it.

        An execution has work if commands are queued, or if its status is PENDING or RUNNING and it
        does not rest until a later time.  A lease expires unless a commit or `heartbeat` renews
        it, and ends with the block.
        """

    def open(
        self, execution_id: str, *, expected_version: int | None
    ) -> AbstractContextManager[Run]:
        """Open an execution at rest for one command.

        Raises:
            StaleVersion: the execution is not at `expected_version`.
            Busy: a worker holds the lease.
        """


@dataclass(frozen=True, slots=True)
class CapabilityCode:
    """The code of a capability."""

    language: str
    code: str


def do_nothing_at_rest(run: Run) -> None:
    """Do nothing: the default of ports without speculation."""


def nothing_refused(execution_id: str, queued: QueuedCommand) -> Reason | None:
    """Return None: the default of ports in which nobody loses a right."""
    return None


def no_capability_code(capability: str) -> CapabilityCode | None:
    """Return None: the default of ports without capabilities."""
    return None


#: Returns a plan with the reviews that its tools require now; the named tasks have begun and stay
#: as they are.  Raises PlanInvalid if another task has a looser review than its tool allows.
class PlanCheck(Protocol):
    """Returns a plan with the reviews that its tools require.

    Tasks in `begun` stay as they are; tasks in `added` are new in a plan that runs.
    """

    def __call__(self, plan: Plan, begun: Collection[str], added: Collection[str] = ()) -> Plan: ...


def unchanged_plan(plan: Plan, begun: Collection[str], added: Collection[str] = ()) -> Plan:
    """Return the plan; tools require no reviews."""
    return plan


def no_remote_results(calls: Sequence[RemoteCall]) -> Mapping[str, Success | Failure]:
    """Return no results: the default of ports without remote runners."""
    return {}


def no_remote_logs(handle: str) -> str:
    """Return no lines: the default of ports without remote runners."""
    return ""


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
    capability_code: Callable[[str], CapabilityCode | None] = no_capability_code
    with_required_reviews: PlanCheck = unchanged_plan
    #: Returns why the sender of a queued command may no longer send it; None if they may.
    lost_right: Callable[[str, QueuedCommand], Reason | None] = nothing_refused
    #: Returns by handle the results of remote tasks that have ended.
    remote_results: Callable[[Sequence[RemoteCall]], Mapping[str, Success | Failure]] = (
        no_remote_results
    )
    #: Returns what a remote task has printed so far, by its handle.
    remote_logs: Callable[[str], str] = no_remote_logs
    #: Called after the lease is released; must not raise or block.
    at_rest: Callable[[Run], None] = do_nothing_at_rest
