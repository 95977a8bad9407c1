"""Tools and jobs that are measured.  Worker processes load this module as a tool module.

Times are `time.monotonic()`, which all processes of one machine share; they travel over a Redis
list, read by `surroundings.Bench.told`.
"""

import json
import time
from typing import Any

import django_rq

from tests.benchmarks.bare import REPORTS
from workflows.executions import jobs
from workflows.tools.registry import tool


def report(**values: Any) -> None:
    """Tell the measuring process."""
    django_rq.get_connection("default").rpush(REPORTS, json.dumps(values))


@tool(server="benchkit", permission_set="readonly", read_only=True, idempotent=True)
def noop(value: Any) -> Any:
    """Give the value back."""
    return value


@tool(server="benchkit", permission_set="filesystem", idempotent=True)
def write(value: Any) -> Any:
    """Give the value back; counts as writing, so that it waits until what was before is durable."""
    return value


@tool(server="benchkit", permission_set="readonly", read_only=True, idempotent=True)
def nap(seconds: float) -> str:
    """Do nothing for a while."""
    time.sleep(seconds)
    return "done"


@tool(server="benchkit", permission_set="readonly", read_only=True, idempotent=True)
def mark(name: str) -> str:
    """Tell when the first line of a task ran."""
    now = time.monotonic()
    report(name=name, at=now)
    return name


def advance(execution_id: int) -> None:
    """The product's own job, with its begin and end told."""
    begun = time.monotonic()
    jobs.advance(execution_id)
    report(name=str(execution_id), begun=begun, at=time.monotonic())


ADVANCE = "tests.benchmarks.kit.advance"


def task(
    name: str, tool_name: str, needs: list[str] | None = None, /, **arguments: Any
) -> dict[str, Any]:
    """A tool task of this kit."""
    return {
        "id": name,
        "type": "tool",
        "tool": f"benchkit.{tool_name}",
        "arguments": arguments,
        "depends_on": needs or [],
    }


def grid(layers: int, width: int, kind: str = "noop") -> dict[str, Any]:
    """A plan of `layers` layers of `width` no-op tasks, each waiting for the whole layer before."""
    tasks = []
    before: list[str] = []
    for layer in range(layers):
        names = [f"t{layer}_{place}" for place in range(width)]
        tasks += [task(name, kind, before, value=layer) for name in names]
        before = names
    return {"tasks": tasks}
