"""Threads of requests end while a request waits."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from config.web import request_thread
from config.web.request_thread import RequestThread, in_request_thread

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _short_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_thread, "IDLE_SECONDS", 0.05)


def threads() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("request")}


async def none_left() -> bool:
    for _ in range(1000):
        if not threads():
            return True
        await asyncio.sleep(0.02)
    return False


async def test_a_request_that_waits_keeps_no_thread() -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        first = await sync_to_async(threading.get_ident)()
        seen.append(await sync_to_async(threading.get_ident)() == first)
        seen.append(await none_left())
        seen.append(await sync_to_async(lambda: bool(threads()))())

    await in_request_thread(application)({}, None, None)
    assert seen == [True, True, True]
    assert await none_left()


async def test_a_long_call_keeps_its_thread() -> None:
    thread = RequestThread()
    release = threading.Event()
    begun = thread.submit(release.wait, 20)
    await asyncio.sleep(3 * request_thread.IDLE_SECONDS)
    after = thread.submit(threading.active_count)
    assert not begun.done()
    assert len(threads()) == 1
    release.set()
    await asyncio.wrap_future(after)
    assert await none_left()
    thread.end()


async def test_a_view_that_runs_on_after_the_request_is_not_waited_for() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        asyncio.get_running_loop().call_later(0.05, task.cancel)
        await sync_to_async(time.sleep)(0.3)

    task = asyncio.ensure_future(in_request_thread(application)({}, None, None))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await none_left()
