"""The LLM agent against a real HTTP server that speaks the two APIs."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.integration.workflows.conftest import Engine, engine, ledger, source, value
from tests.support.actors import actor_named
from workflows.agents.llm import MAX_REPORT_LENGTH
from workflows.engine.protocol.commands import AddMessage
from workflows.executions.services import submit_command
from workflows.models import Execution

__all__ = ["engine", "ledger"]


class Endpoint:
    """A server on loopback; `answers` are given in turn, `requests` keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: list[Any] = []
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append({"path": self.path, **body})
                answer = outer.answers.pop(0) if outer.answers else {"decision": "continue"}
                if answer == "hang":
                    outer.release.wait(20)
                    answer = {"decision": "continue"}
                shape = _anthropic if self.path.endswith("/messages") else _openai
                data = json.dumps(shape(answer)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with suppress(BrokenPipeError):  # the agent had no more time
                    self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


def _openai(answer: Any) -> dict[str, Any]:
    call = {
        "id": "call-1",
        "type": "function",
        "function": {"name": "final_result", "arguments": json.dumps(answer)},
    }
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "local",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _anthropic(answer: Any) -> dict[str, Any]:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "local",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "content": [{"type": "tool_use", "id": "t", "name": "final_result", "input": answer}],
    }


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.server.serve_forever)
    thread.start()
    yield server
    server.close()
    thread.join()


@pytest.fixture(params=["openai", "anthropic"])
def model(request: pytest.FixtureRequest, endpoint: Endpoint, settings: Any) -> Endpoint:
    base = f"{endpoint.url}/v1" if request.param == "openai" else endpoint.url
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "llm_model": f"{request.param}:local",
        "llm_base_url": base,
        "llm_api_key": "test",
    }
    return endpoint


def two_layers(engine: Engine, **ail: Any) -> Execution:
    policy = {"ail": {"enabled": True, "agent": "llm", "timeout_seconds": 60, **ail}}
    secret = {"password": "hunter2", "text": "x" * 3000}
    return engine.start(value("a", secret), value("b", source("a")), policy=policy)


def test_the_agent_sees_all_results_in_one_conversation(engine: Engine, model: Endpoint) -> None:
    model.answers = [{"decision": "continue", "reason": "fine"}, {"decision": "continue"}]
    execution = two_layers(engine)
    submit_command(
        execution_id=execution.pk,
        command=AddMessage(content="mind the budget"),
        actor=actor_named("ann"),
        source="test",
    )
    assert engine.drive(execution).status == "COMPLETED"
    first, second = (json.dumps(each["messages"]) for each in model.requests)
    assert "hunter2" in first
    assert "x" * 3000 in first
    assert "mind the budget" in first
    # The second question carries the first one and its answer.
    assert second.count("of_layers") == 2
    assert "fine" in second


def test_the_agent_aborts_with_its_reason(engine: Engine, model: Endpoint) -> None:
    model.answers = [{"decision": "abort", "reason": "leaks a password"}]
    execution = engine.drive(two_layers(engine))
    assert (execution.status, execution.error) == ("ABORTED", "leaks a password")
    assert engine.called(execution) == ["a"]


def test_a_large_layer_is_truncated_and_still_decided(engine: Engine, model: Endpoint) -> None:
    """A report of more than two million characters discarded the answer, `abort` included."""
    model.answers = [{"decision": "abort", "reason": "too much"}]
    policy = {"ail": {"enabled": True, "agent": "llm", "timeout_seconds": 60}}
    large = [value(f"a{number}", ['x"é' * 60_000] * 4) for number in range(4)]
    execution = engine.start(
        *large, value("small", "seen"), value("b", source("small")), policy=policy
    )
    execution = engine.drive(execution)
    assert (execution.status, execution.error) == ("ABORTED", "too much")
    (message, *_) = execution.events.filter(kind="message_added").order_by("seq")
    report = json.loads(message.payload["content"])
    assert len(message.payload["content"]) <= MAX_REPORT_LENGTH
    assert report["cut_for_length"]
    assert report["results"]["small"] == {"status": "SUCCEEDED", "output": "seen"}
    shown = report["results"]["a0"]["output"]
    assert shown["characters"] > 700_000
    assert shown["beginning"].startswith('["x')


def test_a_malformed_answer_continues_with_a_reason(engine: Engine, model: Endpoint) -> None:
    model.answers = [{"decision": "perhaps"}] * 2 + [{"decision": "continue"}]
    execution = engine.drive(two_layers(engine))
    assert execution.status == "COMPLETED"
    failed = execution.events.get(kind="agent_failed")
    assert "malformed" in failed.payload["error"]


def test_a_late_answer_continues_with_a_reason(engine: Engine, model: Endpoint) -> None:
    model.answers = ["hang"]
    execution = engine.drive(two_layers(engine, timeout_seconds=0.5))
    assert execution.status == "COMPLETED"
    assert "agent_failed" in engine.kinds(execution)


def test_without_a_model_the_run_continues(engine: Engine) -> None:
    execution = engine.drive(two_layers(engine))
    assert execution.status == "COMPLETED"
    failed = execution.events.filter(kind="agent_failed").first()
    assert failed is not None
    assert "HOLDPOINT_LLM_MODEL" in failed.payload["error"]


def test_without_the_extra_the_run_continues_and_names_the_package(
    engine: Engine, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "llm_model": "openai:local"}
    for name in ("pydantic_ai", "pydantic_ai.models.openai", "pydantic_ai.providers.openai"):
        monkeypatch.setitem(sys.modules, name, None)
    execution = engine.drive(two_layers(engine))
    assert execution.status == "COMPLETED"
    failed = execution.events.filter(kind="agent_failed").first()
    assert failed is not None
    assert "install the extra" in failed.payload["error"]
