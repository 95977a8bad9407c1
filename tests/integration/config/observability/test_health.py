"""/livez, /readyz and /metrics with real servers, and with servers that are away."""

import time

import django_rq
import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.workflows.conftest import engine, ledger, review, value  # noqa: F401
from tests.support.processes import wait_for
from workflows.metrics import collector
from workflows.metrics.process_liveness import heartbeat, report_count
from workflows.models import EventCursor, ExecutionEvent, Total

BEARER = {"HTTP_AUTHORIZATION": "Bearer s3cret"}


@pytest.fixture
def token(settings) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "metrics_token": "s3cret"}


@pytest.fixture
def nothing_yet(engine) -> None:  # noqa: F811
    django_rq.get_connection("default").flushdb()


def count_all() -> None:
    """Count to the end of the log; whatever is open anywhere in the server may hold it up."""

    def counted() -> bool:
        collector.count_events()
        newest = ExecutionEvent.objects.order_by("-pk").values_list("pk", flat=True)[0]
        return EventCursor.objects.filter(name=collector.NAME, event__gte=newest).exists()

    wait_for(counted, seconds=30, what="the whole log counted")


def ready() -> tuple[int, dict[str, dict[str, object]]]:
    response = Client().get("/readyz")
    return response.status_code, response.json()["checks"]


def numbers() -> dict[tuple[str, tuple[str, ...]], float]:
    response = Client().get("/metrics", **BEARER)
    assert response.status_code == 200
    return {
        (sample.name.removeprefix("holdpoint_"), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def test_ready_when_everything_answers_and_the_sweeper_goes_round(nothing_yet) -> None:
    status, checks = ready()
    assert (status, checks["sweeper"]["ok"]) == (503, False)
    heartbeat("sweeper")
    status, checks = ready()
    assert status == 200
    assert {name for name, check in checks.items() if check["ok"]} == set(checks)
    assert checks["queues"]["depth"] == {"default": 0, "ahead": 0, "low": 0}


def test_an_old_beat_or_a_long_queue_is_not_ready(nothing_yet, settings) -> None:
    redis = django_rq.get_connection("default")
    redis.set("holdpoint:beat:sweeper", int(time.time()) - 100)
    assert ready()[1]["sweeper"]["ok"] is False
    heartbeat("sweeper")
    settings.HOLDPOINT = {**settings.HOLDPOINT, "ready_queue_depth": 2}
    redis.rpush("rq:queue:default", "a", "b", "c")
    status, checks = ready()
    assert (status, checks["queues"]["ok"]) == (503, False)


def test_an_unavailable_redis_is_reported_without_its_address(nothing_yet, settings) -> None:
    settings.REDIS_URL = "redis://secret-host.invalid:1/0"
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["redis"] == {"ok": False, "error": "ConnectionError"}
    assert response.json()["checks"]["postgres"]["ok"] is True
    assert "secret" not in response.content.decode()


def test_metrics_equal_the_journal(nothing_yet, token, engine) -> None:  # noqa: F811
    done = engine.run(value("a"), value("b"))
    waits = engine.run(value("c", **review("AFTER")))
    engine.decide(engine.holds(waits)[0])
    engine.drive(waits)
    engine.run(value("d", **review("BEFORE")))
    count_all()
    assert collector.count_events() == 0
    heartbeat("sweeper")
    report_count("sockets", "one", 2)
    report_count("sockets", "two", 3)
    found = numbers()
    assert done.status == "COMPLETED"
    assert found["executions", ("COMPLETED",)] == 2
    assert found["executions", ("PAUSED_FOR_REVIEW",)] == 1
    assert found["executions_started_total", ()] == 3
    assert found["tasks_total", ("succeeded",)] == 3
    assert found["decisions_total", ("approve",)] == 1
    assert found["holds_open", ("human",)] == 1
    assert found["hold_oldest_seconds", ("human",)] >= 0
    assert found["layer_seconds_count", ()] == 2
    assert found["layer_seconds_bucket", ("+Inf",)] == 2
    assert found["resume_seconds_count", ()] == 1
    assert 0 <= found["resume_seconds_sum", ()] < 60
    assert found["sockets", ()] == 5
    assert found["up", ("postgres",)] == found["up", ("redis",)] == 1
    assert found["queue_depth", ("low",)] == 0
    assert found["webhooks_pending", ()] == found["webhooks_parked", ()] == 0
    assert found["speculation_total", ("hit",)] == 0


def test_every_transition_is_counted_once(nothing_yet, engine, monkeypatch) -> None:  # noqa: F811
    engine.run(value("a"), value("b", {"$from": "a"}))
    monkeypatch.setattr(collector, "BATCH", 2)
    first = ExecutionEvent.objects.order_by("pk").values_list("pk", flat=True)[0]
    EventCursor.objects.create(name=collector.NAME, event=first - 1)
    count_all()
    assert Total.objects.get(name="tasks", label="succeeded").value == 2
    assert Total.objects.get(name="layer_seconds", label="sum").value >= 0
    EventCursor.objects.update(event=first - 1)
    count_all()
    assert Total.objects.get(name="tasks", label="succeeded").value == 4


def test_metrics_need_permission(nothing_yet, settings) -> None:
    client = Client()
    assert client.get("/metrics").status_code == 404
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "metrics_token": "s3cret",
        "metrics_networks": ["127.0.0.0/8", "10.0.0.0/8"],
    }
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="10.1.1.1").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="11.1.1.1").status_code == 404
    assert client.get("/metrics", REMOTE_ADDR="11.1.1.1", **BEARER).status_code == 200
    wrong = {"HTTP_AUTHORIZATION": "Bearer other"}
    assert client.get("/metrics", REMOTE_ADDR="11.1.1.1", **wrong).status_code == 404
    proxied = {"HTTP_X_FORWARDED_FOR": "11.1.1.1"}
    assert client.get("/metrics", **proxied).status_code == 404
    assert client.get("/metrics", **proxied, **BEARER).status_code == 200
