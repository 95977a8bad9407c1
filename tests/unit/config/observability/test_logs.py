"""Log lines: one JSON object each in production, and never the values of local variables."""

import json
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from django.http import HttpResponse
from django.test import RequestFactory

from config.observability import request_log
from config.observability.logs import logging_config


def line(style: str, *message: str) -> str:
    options = logging_config(level="INFO", style=style)["formatters"]["structlog"]
    formatter = options.pop("()")(**options)
    password = "hunter2"
    try:
        raise ValueError(f"no luck with {len(password)}")
    except ValueError as error:
        failure = (ValueError, error, error.__traceback__)
    text, *args = message or ("it %s", "broke")
    record = logging.LogRecord("app", logging.ERROR, "x.py", 1, text, tuple(args), failure)
    return formatter.format(record)


def test_json_is_one_object_on_one_line() -> None:
    text = line("json")
    assert "\n" not in text
    entry = json.loads(text)
    assert (entry["event"], entry["level"], entry["logger"]) == ("it broke", "error", "app")
    assert entry["exception"][0]["exc_value"] == "no luck with 7"


def test_every_line_of_a_request_names_it() -> None:
    """Lines of libraries too, which know nothing of us."""
    with structlog.contextvars.bound_contextvars(request_id="proxy-12345678"):
        assert json.loads(line("json"))["request_id"] == "proxy-12345678"
    assert "request_id" not in json.loads(line("json"))


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_local_variable_is_shown(style: str) -> None:
    text = line(style)
    assert "no luck with 7" in text
    assert text.count("hunter2") <= 1  # the source line itself may be quoted, its values not


def test_levels_below_the_chosen_one_are_off() -> None:
    assert logging_config(level="WARNING", style="json")["root"]["level"] == "WARNING"


def test_no_line_and_no_span_has_the_token_of_an_answer_link(monkeypatch) -> None:
    path = "/answer/eyJ1c2VyIjox:1abc:x-Y_z/"
    entry = json.loads(line("json", "Forbidden (%s): %s", "no cookie", path))
    assert entry["event"] == "Forbidden (no cookie): /answer/…/"
    shown: list[Any] = []
    monkeypatch.setattr(
        request_log.tracing, "span", lambda name, fields: shown.append(fields) or nullcontext()
    )
    monkeypatch.setattr(
        request_log, "logger", SimpleNamespace(info=lambda event, **fields: shown.append(fields))
    )
    request_log.RequestLogMiddleware(lambda request: HttpResponse())(RequestFactory().get(path))
    assert [fields["path"] for fields in shown] == ["/answer/…/"] * 2
