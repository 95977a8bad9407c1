"""A request is handled in its own thread from the first middleware to the view, in one go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import AsyncToSync
from asgiref.testing import ApplicationCommunicator
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path
from django.utils.deprecation import MiddlewareMixin

from config.web.threaded_asgi import ThreadedHandler

Respond = Callable[[HttpRequest], HttpResponse]
seen: dict[str, threading.Thread] = {}


class Plain:
    """Middleware that can only be called, with a look before the view."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seen["plain"] = threading.current_thread()
        return self.respond(request)

    def process_view(self, *_: Any) -> None:
        seen["before"] = threading.current_thread()


class Either(MiddlewareMixin):
    """Middleware that Django's own handler would await."""

    def process_request(self, request: HttpRequest) -> None:
        seen["either"] = threading.current_thread()


def view(request: HttpRequest) -> HttpResponse:
    seen["view"] = threading.current_thread()
    return HttpResponse(b"seen")


async def awaited(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    return HttpResponse(b"awaited")


urlpatterns = [path("plain", view), path("awaited", awaited)]
MIDDLEWARE = [f"{__name__}.{each.__name__}" for each in (Plain, Either)]


async def ask(where: str) -> bytes:
    scope = {"type": "http", "method": "GET", "path": where, "headers": [], "query_string": b""}
    asked = ApplicationCommunicator(ThreadedHandler(), scope)
    await asked.send_input({"type": "http.request", "body": b""})
    start = await asked.receive_output()
    assert start["status"] == 200
    body: bytes = (await asked.receive_output())["body"]
    await asked.wait()
    return body


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE)
def test_nothing_goes_back_to_the_loop_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncToSync, "__call__", lambda *_: pytest.fail("back to the loop"))
    seen.clear()
    assert asyncio.run(ask("/plain")) == b"seen"
    assert seen.keys() == {"plain", "either", "before", "view"}
    assert len(set(seen.values())) == 1
    assert threading.main_thread() not in seen.values()


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE)
def test_a_view_that_is_awaited_is_answered_too() -> None:
    assert asyncio.run(ask("/awaited")) == b"awaited"
