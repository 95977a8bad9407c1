"""Traces to OpenTelemetry and errors to Sentry, if configured.

    HOLDPOINT_OTLP_ENDPOINT=http://collector:4318   spans of requests and jobs   (extra `otel`)
    HOLDPOINT_SENTRY_DSN=https://key@host/1         unhandled errors             (extra `sentry`)

The libraries are imported only if the setting is set.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from config.observability.logs import hide_secrets
from workflows.common import tracing

_started: list[Callable[[], object]] = []


def start() -> None:
    """Start both, once per process; raises ImproperlyConfigured if a library is missing."""
    if _started:
        return
    if settings.OTLP_ENDPOINT:
        _started.append(_start_traces(settings.OTLP_ENDPOINT))
    if settings.SENTRY_DSN:
        _started.append(_start_errors(settings.SENTRY_DSN))


def flush() -> None:
    """Send buffered traces and errors; for tests and for processes that end."""
    for each in _started:
        each()


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        message = f"{name.partition('.')[0]} is not installed; it is in the extra {extra}."
        raise ImproperlyConfigured(message) from error


def _start_traces(endpoint: str) -> Callable[[], object]:
    sdk = _library("opentelemetry.sdk.trace", "otel")
    resources = _library("opentelemetry.sdk.resources", "otel")
    exporting = _library("opentelemetry.sdk.trace.export", "otel")
    otlp = _library("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel")
    service = resources.Resource.create({"service.name": f"holdpoint-{settings.HOLDPOINT_ROLE}"})
    provider = sdk.TracerProvider(resource=service)
    exporter = otlp.OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(exporting.BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("holdpoint")

    @contextmanager
    def span(name: str, attributes: Mapping[str, str]) -> Iterator[object]:
        named = {f"holdpoint.{key}": value for key, value in attributes.items()}
        with tracer.start_as_current_span(name, attributes=named) as current:
            yield current

    tracing.use(span=span)
    flush_spans: Callable[[], object] = provider.force_flush
    return flush_spans


def _start_errors(dsn: str) -> Callable[[], object]:
    sentry = _library("sentry_sdk", "sentry")
    sentry.init(
        dsn=dsn,
        environment=settings.HOLDPOINT_ROLE,
        # Do not send local variables or personal data.
        send_default_pii=False,
        include_local_variables=False,
        before_send=lambda event, hint: _without_secrets(event),
        before_breadcrumb=lambda crumb, hint: _without_secrets(crumb),
        max_request_body_size="never",
        traces_sample_rate=0.0,
        auto_enabling_integrations=False,
    )
    tracing.use(report=sentry.capture_exception)
    flush_errors: Callable[[], object] = sentry.flush
    return flush_errors


def _without_secrets(value: Any) -> Any:
    """Return an event with secrets in its texts hidden, as in log lines."""
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_secrets(item) for item in value]
    return hide_secrets(value) if isinstance(value, str) else value
