"""LangGraph with PostgresSaver on the same work; optional.

`python -m tests.benchmarks.peer COUNT LAYERS WIDTH DURABILITY` is one process of its throughput:
it says "ready", waits for a line, runs COUNT graphs and tells seconds and memory.
"""

from __future__ import annotations

import json
import operator
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated, Any, TypedDict

DURABLE = ("sync", "async")

Body = Callable[[str], None]


def installed() -> bool:
    """Whether the optional packages are there."""
    # In this order: to look for a part of what is missing is an error.
    return all(map(find_spec, ("langgraph", "langgraph.graph", "langgraph.checkpoint.postgres")))


def version() -> str:
    from importlib.metadata import version as of

    return of("langgraph")


class State(TypedDict):
    """What nodes read and add to."""

    done: Annotated[list[str], operator.add]


@contextmanager
def saver(conninfo: str) -> Iterator[Any]:
    """A PostgresSaver on a connection of its own."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(conninfo) as made:
        yield made


def make_tables(conninfo: str) -> None:
    """LangGraph's tables; once, since two processes at it get in each other's way."""
    with saver(conninfo) as made:
        made.setup()


def _node(name: str, body: Body) -> Any:
    def run(state: State) -> State:
        body(name)
        return {"done": [name]}

    return run


def grid(checkpointer: Any, layers: int, width: int, body: Body = lambda name: None) -> Any:
    """The graph of `kit.grid`. LangGraph moves layer by layer, however nodes are wired.

    So each node follows one node of the layer before, which costs it least: joins of the whole
    layer take it 15 % longer, five edges to each node 20 %.
    """
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(State)
    before = [START] * width
    for layer in range(layers):
        names = [f"t{layer}_{place}" for place in range(width)]
        for earlier, name in zip(before, names, strict=True):
            graph.add_node(name, _node(name, body))
            graph.add_edge(earlier, name)
        before = names
    for name in before:
        graph.add_edge(name, END)
    return graph.compile(checkpointer=checkpointer)


def gated(checkpointer: Any, first_line: Body) -> Any:
    """A graph that stops for a person, then runs one more node."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import interrupt

    graph = StateGraph(State)
    graph.add_node("before", _node("before", lambda name: None))
    graph.add_node("review", _node("review", lambda name: interrupt({"ask": "go on?"})))
    graph.add_node("after", _node("after", first_line))
    graph.add_edge(START, "before")
    graph.add_edge("before", "review")
    graph.add_edge("review", "after")
    graph.add_edge("after", END)
    return graph.compile(checkpointer=checkpointer)


def thread(**more: Any) -> dict[str, Any]:
    """The configuration of a run of its own."""
    return {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 10_000, **more}


def run(graph: Any, config: dict[str, Any], durability: str = "sync") -> float:
    """Seconds of one run from its start."""
    begun = time.perf_counter()
    graph.invoke({"done": []}, config, durability=durability)
    return time.perf_counter() - begun


def main(count: int, layers: int, width: int, durability: str) -> None:
    import psutil

    with saver(os.environ["BENCH_DATABASE"]) as checkpointer:
        graph = grid(checkpointer, layers, width)
        for _ in range(5):
            run(graph, thread(), durability)
        print("ready", flush=True)
        sys.stdin.readline()
        begun = time.monotonic()
        for _ in range(count):
            run(graph, thread(), durability)
        memory = psutil.Process().memory_info().rss
        print(json.dumps({"begun": begun, "at": time.monotonic(), "rss": memory}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
