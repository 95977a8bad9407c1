"""What is over at once: a command, a start, an agent's decision, a summary."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks import bare, kit
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench, start_quietly
from tests.support.actors import actor_named
from workflows.agents import RegisteredAgents
from workflows.engine.protocol.commands import UpdateState
from workflows.engine.protocol.execute_move import agent_question
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.executions.layer_summaries import summarise
from workflows.journal import writer as journal_writer

WIDTH = 50
RULES = [
    {"when": "results.t0_1.status == 'FAILED'", "decision": "abort"},
    {"when": "length(results.*.output[]) > `1000`", "decision": "replan"},
    {"when": "context.sure", "decision": "continue"},
]


def measure(bench: Bench) -> list[Figure]:
    turns = bench.rounds(100, 20)
    held = paused()
    found = in_turns(
        turns,
        commit=_committed(),
        command=lambda turn: commanded(held, turn),
        start=lambda turn: start_quietly(kit.grid(3, 3)),
    )
    agent, summary = boundary(turns)
    commit = found["commit"]
    return [
        Figure("command at rest, applied and logged", found["command"], "ms", turns, commit,
               "bare commit"),
        Figure("start of a 3 x 3 execution", found["start"], "ms", turns, commit, "bare commit"),
        Figure("decision of the rule agent", agent, "ms", turns, target=10),
        Figure("summary of a layer of 50 tasks", summary, "ms", turns, target=100),
    ]  # fmt: skip


def in_turns(turns: int, **calls: Callable[[int], Any]) -> dict[str, float]:
    """Median milliseconds of each call, one after the other in turns, after a few to warm up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 5):
        for name, call in calls.items():
            begun = time.perf_counter()
            call(turn)
            if turn >= 5:
                times[name].append((time.perf_counter() - begun) * 1000)
    return {name: middle(found) for name, found in times.items()}


def _committed() -> Callable[[int], None]:
    run = 1_000_000
    bare.prepare(run)
    return lambda turn: bare.commit_row(run, turn)


def paused() -> int:
    """A run that waits for a person."""
    plan = {"tasks": [kit.task("only", "noop", value=1)]}
    plan["tasks"][0]["human_review"] = {"trigger_phase": "BEFORE_EXECUTION"}
    return int(run_to_rest(start_quietly(plan)).pk)


def commanded(execution_id: int, turn: int) -> None:
    result = services.submit_command(
        execution_id=execution_id,
        command=UpdateState(updates={"turn": turn}),
        actor=actor_named("bench"),
        source="bench",
    )
    assert result.outcome == "applied", result


def boundary(turns: int) -> tuple[float, float]:
    """Milliseconds of a rule agent's decision and of a summary, after a layer of 50 tasks."""
    policy = {"ail": {"enabled": True, "agent": "rules", "settings": {"rules": RULES}}}
    plan = kit.grid(2, WIDTH)
    for task in plan["tasks"]:
        task["arguments"]["value"] = {"text": "found 3 files, mail to ann@example.org " * 20}
    plan["tasks"][WIDTH]["human_review"] = {"trigger_phase": "BEFORE_EXECUTION"}
    execution_id = run_to_rest(start_quietly(plan, policy=policy)).pk
    agents = RegisteredAgents()
    with journal_writer.DjangoJournal().open(str(execution_id), expected_version=None) as run:
        found = in_turns(
            turns,
            agent=lambda turn: agents.ask(agent_question(run, "rules"), lambda: False),
            summary=lambda turn: summarise(run),
        )
    return found["agent"], found["summary"]
