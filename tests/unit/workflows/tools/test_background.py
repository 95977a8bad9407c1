"""The process's own event loop."""

import asyncio
import os
import threading
import time

import pytest

from workflows.common import background_loop


async def where() -> str:
    return threading.current_thread().name


def test_coroutines_run_on_one_loop_in_a_thread_of_its_own() -> None:
    assert background_loop.run(where()) == "holdpoint-background"
    assert background_loop.submit(where()).result(5) == "holdpoint-background"
    assert background_loop.loop() is background_loop.loop()
    assert asyncio.run(background_loop.await_on_loop(where())) == "holdpoint-background"
    assert background_loop.run(background_loop.await_on_loop(where())) == "holdpoint-background"


def test_a_timed_out_coroutine_is_cancelled() -> None:
    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    background_loop.run(where())  # the loop runs: the coroutine begins before its time is over
    with pytest.raises(TimeoutError):
        background_loop.run(forever(), 0.25)
    assert ended.wait(20)


def test_waiting_inside_the_loop_is_refused() -> None:
    async def ask() -> None:
        background_loop.run(where())

    with pytest.raises(RuntimeError, match="its own loop"):
        background_loop.run(ask(), 5)


def test_shutdown_closes_in_reverse_order_and_a_new_loop_follows() -> None:
    closed: list[str] = []
    cancelled = threading.Event()

    async def close(name: str) -> None:
        closed.append(f"{name} on {await background_loop.await_on_loop(where())}")

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    background_loop.shutdown()
    first = background_loop.loop()
    background_loop.register_closer(lambda: close("a"))
    background_loop.register_closer(lambda: close("b"))
    background_loop.submit(forever())
    background_loop.shutdown()
    background_loop.shutdown()
    assert closed == ["b on holdpoint-background", "a on holdpoint-background"]
    assert cancelled.wait(20)
    assert first.is_closed()
    assert background_loop.run(where()) == "holdpoint-background"
    assert background_loop.loop() is not first


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    parent = background_loop.loop()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        fresh = background_loop.loop() is not parent
        answer = f"{fresh} {background_loop.run(where(), 5)}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer_pipe:
        assert answer_pipe.read() == b"True holdpoint-background"
    os.waitpid(pid, 0)
    start = time.monotonic()
    assert background_loop.run(where(), 5) == "holdpoint-background"
    assert background_loop.loop() is parent
    assert time.monotonic() - start < 5
