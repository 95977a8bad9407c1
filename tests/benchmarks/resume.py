"""From a person's decision to the next task's first line, across processes; news of a pause."""

from __future__ import annotations

import time
from collections.abc import Callable

from reviews.decisions.services import DecisionRequest, decide
from tests.benchmarks import bare, kit, peer
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench, reviewer, start_quietly
from tests.support.actors import actor_named
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.executions import dispatch, services
from workflows.executions.selectors import tasks_of
from workflows.journal.prepared_statements import execute
from workflows.models import ExecutionEvent, Hold

PAUSE_MS = 3.0
_COMMITTED = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM workflows_executionevent
 WHERE execution_id = %(id)s AND seq <= %(last)s AND kind = 'hold_opened'
"""
#: Seconds between a pause and its answer, ours and LangGraph's: nobody answers at once, and what
#: was at hand in a processor's caches is not any more.
THOUGHT = 0.02


def measure(bench: Bench) -> list[Figure]:
    bench.need_worker()
    bench.need_bare_worker()
    bench.need_listener()
    heard: list[float] = []
    ways: dict[str, Callable[[], float]] = {
        "command": lambda: resumed(bench, submitted, heard),
        "decision": lambda: resumed(bench, decided, heard),
        "dispatch": lambda: bare_dispatch(bench),
    }
    if peer.installed():
        ways["peer"] = Peer(bench).resumed
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(bench.rounds(60, 10) + 3):
        if turn == 3:
            heard.clear()
        for name, way in ways.items():
            took = way() * 1000
            if turn >= 3:
                times[name].append(took)
    return _figures(times, heard)


def _figures(times: dict[str, list[float]], heard: list[float]) -> list[Figure]:
    found = {name: middle(samples) for name, samples in times.items()}
    n = len(times["command"])
    figures = [
        Figure("bare RQ dispatch", found["dispatch"], "ms", n),
        Figure("resume issued -> first line (command)", found["command"], "ms", n,
               found["dispatch"], "bare RQ dispatch"),
        Figure("resume issued -> first line (decision)", found["decision"], "ms", n,
               found["dispatch"], "bare RQ dispatch"),
        Figure("pause committed -> listener", middle(heard), "ms", len(heard), target=PAUSE_MS),
    ]  # fmt: skip
    if "peer" in found:
        for name, most in (("command", 1.0), ("decision", 1.5)):
            figures.append(
                Figure(f"resume issued -> first line ({name})", found[name], "ms", n,
                       found["peer"], "LangGraph in process", most)
            )  # fmt: skip
    return figures


def resumed(bench: Bench, resume: Callable[[int, Hold], None], heard: list[float]) -> float:
    """Seconds from the call that resumes to the first line of the task that was held back."""
    tasks = [kit.task("before", "noop", value=1), kit.task("after", "mark", ["before"], name="m")]
    tasks[1]["human_review"] = {"trigger_phase": "BEFORE_EXECUTION"}
    execution_id = start_quietly({"tasks": tasks})
    bench.forget_reports()
    dispatch.enqueue(dispatch.ADVANCE, execution_id)
    heard.append(_pause_heard(bench, execution_id))
    hold = Hold.objects.select_related("execution").get(execution_id=execution_id)
    tasks_of(hold.execution)  # nobody decides unseen: the page of the run was read by this process
    time.sleep(THOUGHT)
    issued = time.monotonic()
    resume(execution_id, hold)
    first_line = float(bench.told_by("m")["at"])
    _until_the_end(bench, execution_id)
    return first_line - issued


def _pause_heard(bench: Bench, execution_id: int) -> float:
    """Milliseconds from the commit of the pause, by the database, to its news elsewhere."""
    while True:
        news = bench.told_by("heard")
        found = execute(_COMMITTED, {"id": execution_id, "last": news["last"]})
        if found:
            return (float(news["at"]) - float(found[0][0])) * 1000


def _until_the_end(bench: Bench, execution_id: int) -> None:
    while bench.told_by("heard")["execution"] == execution_id:
        if ExecutionEvent.objects.filter(
            execution_id=execution_id, kind="execution_completed"
        ).exists():
            return


def submitted(execution_id: int, hold: Hold) -> None:
    """Resume through the engine's command."""
    services.submit_command(
        execution_id=execution_id,
        command=ApprovalResponse(hold=hold.pk, approved=True),
        actor=actor_named("bench"),
        source="bench",
    )


def decided(execution_id: int, hold: Hold) -> None:
    """Resume as a reviewer: rights checked, the record written into the hash chain."""
    decide(
        DecisionRequest(
            hold_id=hold.pk,
            user=reviewer(),
            decision="APPROVE",
            version=hold.opened_seq,
            source="bench",
        )
    )


def bare_dispatch(bench: Bench) -> float:
    """Seconds from putting a job on the queue to its first line, without the product."""
    bench.forget_reports()
    time.sleep(THOUGHT)
    sent = time.monotonic()
    bare.queue().enqueue_call("tests.benchmarks.bare.dispatched")
    return float(bench.told_by("dispatched")["at"]) - sent


class Peer:
    """LangGraph's gated graph, made once."""

    def __init__(self, bench: Bench) -> None:
        self._lines: list[float] = []
        saver = bench.stack.enter_context(peer.saver(bench.conninfo))
        self._graph = peer.gated(saver, lambda name: self._lines.append(time.monotonic()))

    def resumed(self) -> float:
        """Seconds from `Command(resume=...)` to the next node's first line, in this process."""
        from langgraph.types import Command

        config = peer.thread()
        self._graph.invoke({"done": []}, config, durability="sync")
        time.sleep(THOUGHT)
        issued = time.monotonic()
        self._graph.invoke(Command(resume=True), config, durability="sync")
        return self._lines.pop() - issued
