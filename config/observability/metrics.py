"""`/metrics` for Prometheus, read from PostgreSQL and Redis; equal in all web processes.

Processes keep no counters, so none are lost or counted twice. The sweeper counts journal entries
(workflows.metrics.collector); a scrape reads these counters and the open holds and executions.
"""

import hmac
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from redis.exceptions import RedisError

from workflows.executions import dispatch, selectors
from workflows.metrics import process_liveness
from workflows.metrics.collector import LAYER_BUCKETS, RESUME_BUCKETS

Totals = Mapping[tuple[str, str], float]

_TOTALS = "SELECT name, label, value FROM workflows_total"
_OPEN_EXECUTIONS = """
SELECT status, count(*) FROM workflows_execution
 WHERE status IN ('PENDING', 'RUNNING', 'PAUSED_FOR_REVIEW', 'AWAITING_AGENT') GROUP BY status
"""
_OPEN_HOLDS = """
SELECT decider, count(*), extract(epoch FROM now() - min(opened_at))::float8
  FROM workflows_hold WHERE status = 'OPEN' GROUP BY decider
"""
_WEBHOOKS = """
SELECT (SELECT count(*) FROM workflows_webhookdelivery WHERE status = 'PENDING'),
       (SELECT count(*) FROM workflows_webhookendpoint WHERE parked_at IS NOT NULL)
"""
_OPEN = ("PENDING", "RUNNING", "PAUSED_FOR_REVIEW", "AWAITING_AGENT")
_FINAL = ("COMPLETED", "FAILED", "ABORTED")


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics; 404 without permission."""
    if not may_read(request):
        raise Http404
    registry = CollectorRegistry(auto_describe=False)
    registry.register(HoldpointCollector())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def may_read(request: HttpRequest) -> bool:
    """Check the bearer token HOLDPOINT_METRICS_TOKEN, or the address in HOLDPOINT_METRICS_NETWORKS.

    Requests through a proxy have the proxy's address, so only the token counts for them.
    """
    token = settings.HOLDPOINT["metrics_token"]
    sent = request.headers.get("Authorization", "").encode()
    if token and hmac.compare_digest(sent, f"Bearer {token}".encode()):
        return True
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
        networks = [ipaddress.ip_network(each) for each in settings.HOLDPOINT["metrics_networks"]]
    except ValueError:
        return False
    return any(address in network for network in networks)


class HoldpointCollector:
    """Reads all metrics at each scrape; metrics of an unavailable server are left out."""

    def collect(self) -> Iterator[Any]:
        sources = {"postgres": self._from_postgres, "redis": self._from_redis}
        up = GaugeMetricFamily("holdpoint_up", "1 when the server answers.", labels=["server"])
        for name, read in sources.items():
            try:
                found = list(read())
            except (DatabaseError, RedisError, OSError):
                up.add_metric([name], 0)
                continue
            up.add_metric([name], 1)
            yield from found
        yield up

    def _from_postgres(self) -> Iterator[Any]:
        totals = {(name, label): value for name, label, value in _rows(_TOTALS)}
        yield _executions(totals)
        yield _counter("executions_started", "Executions that began to run.", totals, "")
        yield _counter("tasks", "Recorded tries of tasks.", totals, "outcome")
        yield _counter("decisions", "Decided holds.", totals, "decision")
        yield _counter("sandbox_kills", "Programs that the sandbox ended.", totals, "reason")
        yield _counter("webhook_attempts", "Tries to post a webhook.", totals, "outcome")
        layers = "Seconds from a layer's start to its last result."
        yield _histogram("layer_seconds", layers, LAYER_BUCKETS, totals)
        resumes = "Seconds from the decision to the first thing a worker did."
        yield _histogram("resume_seconds", resumes, RESUME_BUCKETS, totals)
        yield from _holds()
        yield from _webhooks()
        counts = selectors.speculation_totals()
        hits = CounterMetricFamily("holdpoint_speculation", "Work ahead.", labels=["outcome"])
        hits.add_metric(["hit"], counts.hits)
        hits.add_metric(["miss"], counts.misses)
        yield hits

    def _from_redis(self) -> Iterator[Any]:
        depth = GaugeMetricFamily("holdpoint_queue_depth", "Waiting jobs.", labels=["queue"])
        for name in settings.RQ_QUEUES:
            depth.add_metric([name], dispatch.queue_length(name))
        yield depth
        age = process_liveness.heartbeat_age("sweeper")
        if age is not None:
            words = "Seconds since the sweeper's last round."
            yield GaugeMetricFamily("holdpoint_sweeper_age_seconds", words, value=age)
        words = "Rounds in a row that a part of the sweep has failed."
        failing = GaugeMetricFamily("holdpoint_sweeper_failing_rounds", words, labels=["part"])
        for part, rounds in process_liveness.failing_parts("sweeper").items():
            failing.add_metric([part], rounds)
        yield failing
        workers = process_liveness.total_count("workers", fresh_seconds=30)
        yield GaugeMetricFamily("holdpoint_workers", "Live worker processes.", value=workers)
        sockets = process_liveness.total_count("sockets")
        yield GaugeMetricFamily("holdpoint_sockets", "Open sockets.", value=sockets)


def _executions(totals: Totals) -> Any:
    found = dict.fromkeys(_OPEN, 0.0)
    found |= {status: totals.get(("executions_finished", status), 0.0) for status in _FINAL}
    found |= dict(_rows(_OPEN_EXECUTIONS))
    family = GaugeMetricFamily("holdpoint_executions", "Executions by status.", labels=["status"])
    for status, number in found.items():
        family.add_metric([status], number)
    return family


def _holds() -> Iterator[Any]:
    number = GaugeMetricFamily("holdpoint_holds_open", "Open holds.", labels=["decider"])
    words = "Seconds that the oldest open hold has waited."
    oldest = GaugeMetricFamily("holdpoint_hold_oldest_seconds", words, labels=["decider"])
    found = {decider: (count, age) for decider, count, age in _rows(_OPEN_HOLDS)}
    for decider in ("human", "agent"):
        count, age = found.get(decider, (0, 0.0))
        number.add_metric([decider], count)
        oldest.add_metric([decider], age)
    yield number
    yield oldest


def _webhooks() -> Iterator[Any]:
    pending, parked = _rows(_WEBHOOKS)[0]
    yield GaugeMetricFamily("holdpoint_webhooks_pending", "Deliveries that wait.", value=pending)
    yield GaugeMetricFamily("holdpoint_webhooks_parked", "Endpoints that are parked.", value=parked)


def _counter(name: str, words: str, totals: Totals, label: str) -> Any:
    family = CounterMetricFamily(f"holdpoint_{name}", words, labels=[label] if label else [])
    for (found, value), number in sorted(totals.items()):
        if found == name:
            family.add_metric([value] if label else [], number)
    return family


def _histogram(name: str, words: str, buckets: tuple[float, ...], totals: Totals) -> Any:
    counts = [totals.get((name, str(index)), 0.0) for index in range(len(buckets) + 1)]
    edges = [*(str(edge) for edge in buckets), "+Inf"]
    running = [sum(counts[: index + 1]) for index in range(len(counts))]
    family = HistogramMetricFamily(f"holdpoint_{name}", words)
    family.add_metric(
        [], list(zip(edges, running, strict=True)), sum_value=totals.get((name, "sum"), 0.0)
    )
    return family


def _rows(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
