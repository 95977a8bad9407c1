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
from config.observability.logs import hide_secrets, logging_config


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


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_line_has_the_secrets_of_an_address(style: str) -> None:
    """Also not those of a value that only the renderer turns into text, such as a request."""
    for address in (
        "/answer/S3CRET:1abc:x-Y_z/",
        "/answer/#S3CRET",
        "/new-password/Mg/S3CRET-x1/",
        "//answer//S3CRET",
        "/login/?password=S3CRET",
        "/caf\u00e9?a'b&password=h\u00e4S3CRET",
        "/login/?next=/x%3Fcode%3DS3CRET",
        "https://a.example/x?S3CRET",
        "/x'y?state='S3CRET'&a",
        "https://hooks.slack.com/services/T1/B1/S3CRET",
        "https://discord.example/api/webhooks/123456789012345678/S3CRET",
        "https://office.example/webhookb2/S3CRET/IncomingWebhook/S3CRET",
        "https://chat.example/hooks/s3cret" + "7h" * 10,
        "postgres://ann:S3CRET@db/holdpoint",
        "redis://:S3CRET@cache/0",
        "Bearer hp_S3CRETxx_" + "S3CRET" * 8,
        "token%3Dhp_S3CRETxx_" + "S3CRET" * 8,
    ):
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "Refused: %s", (address,), None)
        record.request = SimpleNamespace(address=address)
        options = logging_config(level="INFO", style=style)["formatters"]["structlog"]
        text = options.pop("()")(**options).format(record)
        assert "s3cret" not in text.lower(), text
        assert "Refused: " in text
        if style == "json":
            assert json.loads(text)["level"] == "error"


def test_other_texts_stay() -> None:
    for text in (
        "Really? Yes.", "files[?size > `1`] of /runs/7/", "a@b.example: 12:30", "hp_",
        "/api/v1/webhooks/12/deliveries/3/", "/api/v1/hooks/claude-code/stop/",
    ):  # fmt: skip
        assert hide_secrets(text) == text


def test_no_span_has_the_token_of_an_answer_link(monkeypatch) -> None:
    path = "/answer/eyJ1c2VyIjox:1abc:x-Y_z/"
    shown: list[Any] = []
    monkeypatch.setattr(
        request_log.tracing, "span", lambda name, fields: shown.append(fields) or nullcontext()
    )
    monkeypatch.setattr(
        request_log, "logger", SimpleNamespace(info=lambda event, **fields: shown.append(fields))
    )
    request_log.RequestLogMiddleware(lambda request: HttpResponse())(RequestFactory().get(path))
    assert [fields["path"] for fields in shown] == ["/answer/…"] * 2
