"""Reads of many connections: one batch at a time, answers to each, failures logged once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from django.db import OperationalError

from workflows.realtime.batched_reads import BatchedRead, ReadFailed, seconds_to_poll


class Slow:
    """Doubles numbers; the first batch waits until it is released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(numbers))
        self.begun.set()
        assert self.released.wait(10)
        return [2 * each if each else LookupError("no zero") for each in numbers]


async def test_questions_that_come_meanwhile_are_the_next_batch() -> None:
    slow = Slow()
    read = BatchedRead(slow)
    first = asyncio.create_task(read(1))
    await asyncio.to_thread(slow.begun.wait, 10)
    rest = [asyncio.create_task(read(each)) for each in range(2, 6)]
    await asyncio.sleep(0)
    slow.released.set()
    assert await asyncio.gather(first, *rest) == [2, 4, 6, 8, 10]
    assert slow.batches == [[1], [2, 3, 4, 5]]
    assert await read(7) == 14
    assert slow.batches[2:] == [[7]]


async def test_an_answer_that_is_an_exception_is_raised_to_its_asker_only() -> None:
    slow = Slow()
    slow.released.set()
    read = BatchedRead(slow)
    found = await asyncio.gather(read(0), read(3), return_exceptions=True)
    assert isinstance(found[0], LookupError)
    assert found[1] == 6


async def test_a_connection_that_leaves_does_not_fail_the_others() -> None:
    slow = Slow()
    read = BatchedRead(slow)
    leaver, stayer = (asyncio.create_task(read(each)) for each in (1, 2))
    await asyncio.to_thread(slow.begun.wait, 10)
    leaver.cancel()
    slow.released.set()
    assert await stayer == 4
    assert leaver.cancelled()


async def test_a_failed_read_is_logged_once_and_the_next_one_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(numbers: Sequence[int]) -> list[int | Exception]:
        if 0 in numbers:
            raise OperationalError("the database is away")
        return list(numbers)

    read = BatchedRead(broken)
    found = await asyncio.gather(*(read(each) for each in range(50)), return_exceptions=True)
    assert {type(each) for each in found} == {ReadFailed}
    assert len(caplog.records) == 1
    assert await read(1) == 1


async def test_a_question_that_cannot_be_answered_fails_only_its_asker() -> None:
    def broken(numbers: Sequence[int]) -> list[int | Exception]:
        if 0 in numbers:
            raise KeyError("an event of a newer version")
        return list(numbers)

    read = BatchedRead(broken)
    found = await asyncio.gather(*(read(each) for each in range(3)), return_exceptions=True)
    assert isinstance(found[0], ReadFailed)
    assert found[1:] == [1, 2]


async def test_polls_fall_on_multiples_of_the_interval() -> None:
    now = asyncio.get_running_loop().time()
    due = now + seconds_to_poll(20.0)
    assert 0 < seconds_to_poll(20.0) <= 20.0
    assert round(due % 20.0, 2) in (0.0, 20.0)
