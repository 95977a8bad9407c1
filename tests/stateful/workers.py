"""Workers that do a few moves, die at a crash point, or fall asleep there and wake up too late."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from tests.stateful.scripted import PowerCut
from workflows.common import crashpoints
from workflows.engine.protocol.loop import step
from workflows.engine.protocol.ports import LeaseLost, StaleVersion
from workflows.executions import services
from workflows.journal import writer as journal_writer
from workflows.models import Execution
from workflows.speculation import store as speculation_store

_mine = threading.local()


class FewMoves(journal_writer.DjangoJournal):
    """A journal whose time slice is over after so many moves."""

    def __init__(self, moves: int) -> None:
        super().__init__(owner="stateful")
        self._moves = moves

    @contextmanager
    def claim(self, execution_id: str) -> Iterator[journal_writer.JournalRun | None]:
        left = self._moves

        def slice_over() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        with super().claim(execution_id) as run:
            if run is not None:
                run.slice_over = slice_over  # type: ignore[method-assign]
            yield run


def work(execution_id: int, moves: int) -> None:
    """What a worker does with a job, for `moves` moves."""
    ports = replace(services.ports(), journal=FewMoves(moves))
    # As in workflows.executions.jobs: somebody else has it.
    with suppress(LeaseLost, StaleVersion):
        step(str(execution_id), ports)


def fence_of(execution_id: int) -> int:
    """How often a worker has claimed the execution."""
    return Execution.objects.values_list("fence", flat=True).get(pk=execution_id)


@contextmanager
def at_point(nth: int, action: Callable[[], None]) -> Iterator[None]:
    """In this thread, `action` happens at the nth crash point from now on, whichever it is."""
    _mine.left, _mine.action = nth, action
    try:
        yield
    finally:
        _mine.left = 0


def reached(name: str) -> None:
    """Hears of every crash point in every thread; see `crashpoints.set_observer`."""
    left = getattr(_mine, "left", 0)
    if left:
        _mine.left = left - 1
        if left == 1:
            _mine.action()


def dies_at(nth: int, action: Callable[[], object]) -> bool:
    """Do `action` in a process that dies at the nth crash point; False if it got through."""

    def cut() -> None:
        raise PowerCut

    try:
        with at_point(nth, cut):
            action()
    except PowerCut:
        return True
    return False


@contextmanager
def mortal_processes() -> Iterator[None]:
    """Crash points act, and nobody tidies up behind a process that died."""
    tidy = journal_writer.release

    def release(
        run: journal_writer.JournalRun, *, delay: float | None, error: str, lost: bool = False
    ) -> None:
        if not error.startswith(PowerCut.__name__):
            tidy(run, delay=delay, error=error)

    give_up = speculation_store.abandon

    def leave(claims: Iterable[speculation_store.Claim]) -> None:
        if not isinstance(sys.exception(), PowerCut):
            give_up(claims)

    journal_writer.release, speculation_store.abandon = release, leave
    crashpoints.set_observer(reached)
    try:
        yield
    finally:
        crashpoints.set_observer(None)
        journal_writer.release, speculation_store.abandon = tidy, give_up


@dataclass
class Sleeper:
    """A worker in a thread of its own that stops at a crash point until it is woken."""

    execution_id: int
    #: Does so many moves of an execution, and reads its fence.
    work: Callable[[int, int], None]
    fence_of: Callable[[int], int]

    def __post_init__(self) -> None:
        self._news: queue.Queue[Any] = queue.Queue()
        self._go = threading.Event()

    def fall_asleep(self, moves: int, nth: int) -> bool:
        """Start; True when it sleeps, False when it was done before."""
        self._thread = threading.Thread(target=self._run, args=(moves, nth), daemon=True)
        self._thread.start()
        asleep = bool(self._hear() == "asleep")
        self.fence = self.fence_of(self.execution_id)
        return asleep

    def wake(self) -> None:
        """Let it go on, to its end."""
        self._go.set()
        assert self._hear() == "done"

    def _hear(self) -> Any:
        news = self._news.get(timeout=60)
        if isinstance(news, BaseException):
            raise news
        if news == "done":
            self._thread.join()
        return news

    def _run(self, moves: int, nth: int) -> None:
        try:
            with at_point(nth, self._sleep):
                self.work(self.execution_id, moves)
            self._news.put("done")
        except BaseException as error:
            self._news.put(error)
        finally:
            connection.close()

    def _sleep(self) -> None:
        self._news.put("asleep")
        self._go.wait(timeout=120)
