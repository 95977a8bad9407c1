"""A process that loads Django once and forks: each child lives an execution's life until it dies.

Started by `test_crashpoints`; speaks JSON lines on stdin and stdout.  The tools below run in the
children and are in the catalogue of the test's process as well.
"""

import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import django
from django.conf import settings

if __name__ == "__main__":
    django.setup()

from django.contrib.auth import get_user_model
from django.db import connections

from reviews.decisions.services import DecisionRequest, decide
from tests.support.toolkit import note
from workflows.common import crashpoints
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.actors import Actor
from workflows.engine.protocol.commands import load_command
from workflows.engine.protocol.ports import TaskFailed
from workflows.engine.protocol.state import ExecutionState, dump_state, load_state
from workflows.executions.jobs import advance
from workflows.executions.recovery import sweep
from workflows.executions.services import parse_command, start_execution, submit_command
from workflows.models import Execution, Hold
from workflows.tools.context import ToolContext
from workflows.tools.registry import discover, tool

FINAL = ("COMPLETED", "FAILED", "ABORTED")


@tool(server="crashkit", permission_set="readonly")
def nudge(commands: list[dict[str, Any]], ctx: ToolContext) -> str:
    """Command the execution that runs this task: the commands wait for the boundary."""
    note(ctx)
    for data in commands:
        submit_command(
            execution_id=int(ctx.execution_id),
            command=parse_command(data),
            actor=Actor("ann"),
            source="test",
        )
    return "nudged"


@tool(server="crashkit", permission_set="readonly")
def second_try(ctx: ToolContext) -> str:
    """Fail the first attempt, however often that is repeated."""
    note(ctx)
    if ctx.idempotency_key.endswith(":1"):
        raise TaskFailed("not yet")
    return "recovered"


def task(name: str, tool: str, phase: str = "", **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": name, "type": "tool", "tool": tool, "arguments": arguments}
    if phase:
        found["human_review"] = {"trigger_phase": f"{phase}_EXECUTION"}
    return found


_UPDATE = {"kind": "update_state", "updates": {"nudged": True}}
#: By the kind of a life: its plan, its policy and its end.
LIVES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "plain": (
        [
            task("a", "crashkit.nudge", commands=[_UPDATE]),
            task("b", "crashkit.second_try") | {"retry": {"max_attempts": 2, "backoff_seconds": 0}},
            task("c", "testkit.value", "BEFORE", value=[{"$from": "a"}, {"$from": "b"}]),
            task("d", "testkit.value", "AFTER", value={"$from": "c"}),
            task("e", "builtin.echo", value={"$from": "d"}),
            task("f", "builtin.echo", value={"$from": "e"}),
            task("g", "testkit.value", value={"$from": "f"}),
        ],
        {},
        "COMPLETED",
    ),
    "steered": (
        [
            task("a", "crashkit.nudge", commands=[{"kind": "continue"}, {"kind": "abort"}]),
            task("b", "testkit.value", value={"$from": "a"}),
        ],
        {"per_layer_validation": True},
        "ABORTED",
    ),
}


def live(title: str, kind: str) -> None:
    """Everything that happens to one execution, by workers, people and the sweeper."""
    tasks, policy, _ = LIVES[kind]
    execution = start_execution(actor=None, plan={"tasks": tasks}, policy=policy, title=title)
    Execution.objects.filter(pk=execution.pk).update(dispatched_at="2000-01-01T00:00Z")
    sweep()
    for _ in range(20):
        advance(execution.pk)
        decide_all(execution.pk)
        execution.refresh_from_db()
        if execution.status in FINAL:
            return
    raise AssertionError(f"still {execution.status}")


def decide_all(execution_id: int) -> None:
    """The reviewer approves what is open, if anything is."""
    reviewer = get_user_model().objects.get(username="reviewer")
    holds = Hold.objects.filter(execution_id=execution_id, status="OPEN", decider="human")
    for hold in holds.select_related("execution"):
        decide(
            DecisionRequest(
                hold_id=hold.pk,
                user=reviewer,
                decision="APPROVE",
                version=hold.execution.version,
                source="test",
            )
        )


def drain() -> None:
    """A worker does what is on the queue, then stops."""
    import django_rq
    from rq.serializers import JSONSerializer

    from workflows.management.commands.run_workers import EngineWorker

    worker = EngineWorker(
        ["default"], connection=django_rq.get_connection("default"), serializer=JSONSerializer
    )
    worker.work(burst=True, logging_level="WARNING")


def perform(request: dict[str, Any]) -> dict[str, int]:
    """In a child: how often each crash point was reached, if the child lives to tell."""
    if request["do"] == "drain":
        drain()
        return {}
    reached: Counter[str] = Counter()
    if request["crash"]:
        crashpoints.arm(request["crash"])
    else:
        crashpoints.set_observer(lambda name: reached.update([name]))
    live(request["title"], request["kind"])
    return dict(reached)


def forked(action: Callable[[], dict[str, int]]) -> tuple[int, dict[str, int]]:
    """Run `action` in a child; its exit status and its answer."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(writer, json.dumps(action()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), json.loads(text or "{}")


def warm_up() -> None:
    """What every child would build anew, built once: schemas, parsers, tools.  No connections."""
    # The sweep in one life leaves the wrecks of the others to the recovery at the end.
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sweep_seconds": 3600.0}
    discover()
    for tasks, policy, _ in LIVES.values():
        parse_plan({"tasks": tasks})
        Policy.model_validate(policy)
    load_state(json.loads(dump_state(ExecutionState())))
    parse_command(_UPDATE)
    load_command(_UPDATE, internal=True)


def main() -> None:
    warm_up()
    for line in sys.stdin:
        request = json.loads(line)
        inherited = [each for each in connections.all() if each.connection is not None]
        assert inherited == [], "two processes would share one session"
        status, reached = forked(lambda request=request: perform(request))
        sys.stdout.write(json.dumps({"status": status, "reached": reached}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
