"""Execution, request and user in log lines of web and worker; traces and errors on request."""

from __future__ import annotations

import gzip
import io
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import structlog
from django.contrib.auth.models import User
from django.contrib.sessions.middleware import SessionMiddleware
from django.test import Client
from rq.serializers import JSONSerializer

from config.observability import request_log
from config.observability.logs import logging_config
from tests.integration.workflows.conftest import engine, ledger, value  # noqa: F401
from tests.integration.workflows.webhooks.conftest import person
from tests.support.pages import browser
from tests.support.processes import ROOT, environment
from workflows.executions import dispatch, worker
from workflows.permissions.tokens import create_token


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What the web process logs, with its context."""
    found: list[dict[str, Any]] = []

    def keep(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
        found.append(dict(event))
        raise structlog.DropEvent

    before = structlog.get_config()
    logger = request_log.logger
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, keep],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    )
    request_log.logger = structlog.get_logger()
    yield found
    request_log.logger = logger
    structlog.configure(**before)


def test_a_line_names_request_user_and_execution(engine, lines) -> None:  # noqa: F811
    owner = person("operator")
    execution = engine.run(value("a"))
    client = browser(owner)
    client.get(f"/runs/{execution.pk}/", headers={"X-Request-ID": "proxy-12345678"})
    assert lines[-1] | {
        "request_id": "proxy-12345678",
        "user": "operator",
        "execution_id": str(execution.pk),
        "status": 200,
        "event": "request",
    } == lines[-1]  # fmt: skip
    token, text = create_token(user=owner, name="t", scopes=["read"])
    Client().get(f"/api/v1/executions/{execution.pk}/", headers={"Authorization": f"Bearer {text}"})
    assert (lines[-1]["user"], lines[-1]["token"]) == ("operator", token.prefix)
    Client().get("/login/")
    assert "user" not in lines[-1]
    Client().get("/livez")
    assert lines[-1]["path"] == "/login/"


SECRET = "S3CRETtokenOfSomebody"
#: Addresses that carry, or once carried, a secret.
PATHS = (
    f"/answer/{SECRET}/",
    f"/answer/?decision={SECRET}",
    f"/login/?password={SECRET}",
    f"/login/?next=/oauth/authorize/%3Fstate%3D{SECRET}",
    f"/login/oidc/callback/?code={SECRET}&state={SECRET}",
    f"/oauth/authorize/?client_id=x&state={SECRET}&code_challenge={SECRET}",
    f"/oauth/register/x/?token={SECRET}",
    f"/api/v1/hooks/codex/?call={SECRET}",
    f"/search/?q={SECRET}",
    f"/nowhere/?password={SECRET}",
)


@pytest.mark.django_db
@pytest.mark.parametrize("style", ["json", "console"])
def test_no_line_of_a_refused_or_failed_request_has_a_secret(style, monkeypatch) -> None:
    """All lines at the level DEBUG, with the requests that Django adds to them."""
    options = logging_config(level="DEBUG", style=style)["formatters"]["structlog"]
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(options.pop("()")(**options))
    root = logging.getLogger()
    names = ("", "django", "django.request", "django.security", "config", "workflows", "reviews")
    levels = {name: logging.getLogger(name).level for name in names}
    monkeypatch.setattr(request_log.logger, "info", partial(log_at, root), raising=False)
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.addHandler(handler)
    try:
        statuses = {answer.status_code for answer in refused_requests()}
        with monkeypatch.context() as broken:
            broken.setattr(SessionMiddleware, "process_request", fail)
            client = Client(raise_request_exception=False)
            statuses |= {client.get(path).status_code for path in PATHS}
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert {400, 403, 404, 405, 500} <= statuses
    text = written.getvalue()
    assert "WSGIRequest" in text
    assert "/answer/" in text
    assert SECRET not in text, next(line for line in text.splitlines() if SECRET in line)


def refused_requests() -> Iterator[Any]:
    for path in PATHS:
        form = {"token": SECRET, "password": SECRET}
        yield Client().get(path)
        yield Client().post(path, form)
        yield Client(enforce_csrf_checks=True).post(path, form)
        yield Client().put(path, json.dumps(form), content_type="application/json")
        yield Client().get(path, headers={"host": "elsewhere.example"})


def log_at(root: logging.Logger, event: str, **fields: Any) -> None:
    root.info(event, extra={f"field_{name}": value for name, value in fields.items()})


def fail(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError("it broke")


def log_context_of(name: str) -> None:
    """A job that notes the context of its log lines."""
    contexts.append(context())


contexts: list[dict[str, Any]] = []


def test_worker_lines_carry_the_request_id_of_the_job(servers: None) -> None:
    contexts.clear()
    queue = dispatch.get_queue(dispatch.DEFAULT)
    queue.connection.flushdb()
    job = f"{log_context_of.__module__}.{log_context_of.__name__}"
    with structlog.contextvars.bound_contextvars(request_id="proxy-12345678"):
        dispatch.enqueue(job, 42)
    dispatch.enqueue(job, 7)
    made = worker.EngineWorker(
        [dispatch.DEFAULT], connection=queue.connection, serializer=JSONSerializer
    )
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        made.work(burst=True)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        queue.connection.flushdb()
    assert contexts == [{"subject_id": "42", "request_id": "proxy-12345678"}, {"subject_id": "7"}]
    assert context() == {}


def context() -> dict[str, Any]:
    return structlog.contextvars.get_contextvars()


# --- traces and errors ------------------------------------------------------------------------


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that takes what OpenTelemetry and Sentry send."""
    found: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"127.0.0.1:{server.server_port}", found
    server.shutdown()
    thread.join()
    server.server_close()


SCRIPT = """
import json, sys, django
django.setup()
from config.observability import telemetry
from django.test import Client
from workflows.common import tracing
Client(headers={"host": "localhost"}).get("/livez")
tracing.report(ValueError("it broke at /login/?password=S3CRET"))
telemetry.flush()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def modules_with(user: User | None = None, **more: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_without_settings_no_tracing_code_is_imported(db) -> None:
    loaded = modules_with()
    assert "sentry_sdk" not in loaded
    assert not any(name == "google" for name in loaded)


def test_spans_and_errors_reach_the_configured_endpoints(db, collector) -> None:
    address, found = collector
    loaded = modules_with(
        HOLDPOINT_OTLP_ENDPOINT=f"http://{address}",
        HOLDPOINT_SENTRY_DSN=f"http://key@{address}/1",
    )
    assert {"sentry_sdk", "opentelemetry"} <= loaded
    paths = {path.partition("?")[0] for path, _ in found}
    assert paths == {"/v1/traces", "/api/1/envelope/"}
    (event,) = (body for path, body in found if path.startswith("/api/"))
    text = gzip.decompress(event) if event.startswith(b"\x1f\x8b") else event
    assert b"it broke at /login/?" in text
    assert b"S3CRET" not in text
