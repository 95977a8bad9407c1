"""The tool graph gets better with runs, and is not needed for them: each part may be down."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from graphrag.catalogue import ingest
from graphrag.models import Tool, ToolDependency
from graphrag.planning import services as planning_services
from tests.integration.workflows.conftest import Engine, source, value
from tests.support.run_files import put_in_next_runs
from workflows.executions.definitions import plan_for_intent
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution
from workflows.planning.learning import learn_from
from workflows.planning.planner import suggest

WAITING = {"per_layer_validation": True}
INTENT = "list the directory, then read the file, then parse the JSON"
TOOLS = ["builtin.list_directory", "builtin.read_file", "builtin.parse_json"]


@contextmanager
def renamed(table: str) -> Iterator[None]:
    """The table is gone, as after a botched restore."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO gone")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE gone RENAME TO {table}")


@pytest.fixture
def nobody_listens() -> str:
    """An address that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return f"openai:http://127.0.0.1:{port}/v1"


def waiting(engine: Engine) -> Execution:
    """A run of two layers that rests after the first."""
    second = value("two", source("one")) | {"tool": "testkit.effect"}
    return engine.run(value("one", {"text": "<a/>"}), second, policy=WAITING)


def replan(engine: Engine, execution: Execution, requirement: str, **context: Any) -> None:
    command = {
        "kind": "replan",
        "new_requirement": requirement,
        "available_context": context,
    }
    engine.command(execution, command)


def run_completes(engine: Engine, execution: Execution) -> None:
    execution = engine.drive(execution)
    while execution.status == "AWAITING_AGENT":
        engine.command(execution, {"kind": "continue"})
        execution = engine.drive(execution)
    assert execution.status == "COMPLETED"


def replan_reason(execution: Execution) -> str:
    """What the run says about a replan that changed nothing."""
    execution.refresh_from_db()
    assert execution.status == "AWAITING_AGENT"
    return str(execution.events.get(kind="replan_failed").payload["error"])


def test_two_runs_of_the_same_tools_teach_the_graph(engine: Engine, settings: Any) -> None:
    put_in_next_runs(settings.HOLDPOINT["file_root"], {"a.json": '{"a": 1}'})
    task = {"type": "tool"}
    chain = [
        {**task, "id": "a", "tool": TOOLS[0], "arguments": {"path": "."}},
        {**task, "id": "b", "tool": TOOLS[1], "arguments": {"path": "a.json"}, "depends_on": ["a"]},
        {**task, "id": "c", "tool": TOOLS[2],
         "arguments": {"text": {"$from": "b", "select": "content"}}},
    ]  # fmt: skip
    told = []
    for _ in range(2):
        told.append((suggest(INTENT, {"path": "."}).confidence, ranks()))
        execution = engine.run(*chain)
        assert execution.status == "COMPLETED", execution.error
        learn_from(execution.pk)
        learn_from(execution.pk)  # a second time teaches nothing
        edges = ToolDependency.objects.values_list(
            "from_tool__name", "to_tool__name", "observed_count", "confidence"
        )
        count, confidence = len(told), 0.4 + 0.1 * len(told)
        assert {row[:2] for row in edges} == set(pairwise(TOOLS))
        assert all(row[2:] == (count, pytest.approx(confidence)) for row in edges)
    told.append((suggest(INTENT, {"path": "."}).confidence, ranks()))
    confidences = [confidence for confidence, _ in told]
    assert confidences == sorted(set(confidences))
    assert told[2][1][TOOLS[2]] > told[0][1][TOOLS[2]]


def ranks() -> dict[str, float]:
    return dict(Tool.objects.filter(name__in=TOOLS).values_list("name", "pagerank"))


def test_a_planner_outage_is_an_event_and_the_run_continues(engine: Engine) -> None:
    execution = waiting(engine)
    with renamed("graphrag_tooldependency"):
        ingest.versioned_cache.bump("graph")
        replan(engine, execution, "parse XML", text="<a/>")
        assert "The tool graph cannot be queried now" in replan_reason(execution)
        found = planning_services.suggest("parse XML")
        assert found.plan is None
        assert "cannot be queried now" in found.warnings[0]
        run_completes(engine, execution)
        learn_from(execution.pk)
    failed = execution.events.get(kind="graph_update_failed")
    assert "graphrag_tooldependency" in failed.payload["error"]
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"


def test_without_its_embedder_the_search_uses_full_text(
    engine: Engine, settings: Any, nobody_listens: str
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "embedder": nobody_listens}
    found = planning_services.suggest("parse the XML", {"text": "<a/>"})
    assert found.plan is not None
    assert found.plan["tasks"][0]["tool"] == "builtin.parse_xml"
    assert any("full text alone" in told and nobody_listens[7:] in told for told in found.warnings)
    execution = waiting(engine)
    replan(engine, execution, "parse XML", text="<a/>")
    assert execution.events.filter(kind="plan_revised").exists()
    run_completes(engine, execution)
    learn_from(execution.pk)
    assert not execution.events.filter(kind="graph_update_failed").exists()


def test_an_empty_catalogue_is_reported_and_the_run_continues(engine: Engine) -> None:
    execution = waiting(engine)
    for server in set(Tool.objects.values_list("server", flat=True)):
        ingest.disable_server(server)
    assert not Tool.objects.filter(enabled=True).exists()
    replan(engine, execution, "parse XML", text="<a/>")
    assert "The catalogue has no enabled tool" in replan_reason(execution)
    with pytest.raises(InvalidRequest, match="The catalogue has no enabled tool"):
        plan_for_intent(intent="parse XML", inputs={})
    run_completes(engine, execution)
