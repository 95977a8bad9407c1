"""Watch the calls of remote runners, in a thread of the sweeper's process.

The thread compares the calls of each cluster with the runs that wait for one: it wakes a run whose
call has ended or is lost, cancels a call that no run waits for any more, and reads what the others
have printed.  It keeps nothing
between two rounds, so a round that is lost is made up by the next one.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Collection

from django.db import Error, close_old_connections, connection

from workflows import conf
from workflows.common.crashpoints import crashpoint
from workflows.executions import dispatch
from workflows.journal import sweeper_queries

from . import live_output
from .port import RemoteRunner, RunnerUnavailable
from .registry import configured_runners

logger = logging.getLogger(__name__)

#: The key of an attempt: execution, task, number.  A cluster may have others, which are ignored.
_KEY = re.compile(r"[0-9]{1,18}:[A-Za-z0-9_.\-]{1,64}:[0-9]{1,9}")
#: Calls whose output one round reads; of more, others are read in each round.
_READ_AT_ONCE = 50


def run(stop: threading.Event) -> None:
    """Watch until stopped, if a runner is configured."""
    if not configured_runners():
        return
    try:
        while not stop.is_set():
            _round()
            stop.wait(conf.sweep_seconds())
    finally:
        connection.close()


def _round() -> None:
    try:
        close_old_connections()
        watch()
    except Error as error:
        logger.warning("remote calls wait for the database: %s", error)
        connection.close()
    except Exception:
        logger.exception("a round of watching remote calls failed, trying again")


def watch() -> int:
    """Run one round; returns the number of runs that were woken and calls that were cancelled."""
    done, failed = 0, None
    for name, runner in configured_runners().items():
        try:
            done += _watch(name, runner)
        except RunnerUnavailable as error:
            logger.warning("the runner %s cannot be reached: %s", name, error)
        except Exception as error:
            # What one cluster answers does not stop the calls of another.
            failed = error
    if failed is not None:
        raise failed
    return done


def _watch(name: str, runner: RemoteRunner) -> int:
    waiting = sweeper_queries.remote_calls(name)
    states = runner.states()
    # A handle that the cluster does not know is lost, and its attempt has failed.
    ended = {execution for execution, handle in waiting if states.get(handle, True)}
    woken = sweeper_queries.wake(sorted(ended))
    if woken:
        crashpoint("remote.woken")
    for execution_id in woken:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)
    keys = {
        key: handle for handle in states if _KEY.fullmatch(key := runner.key_of(handle)) is not None
    }
    unused = [keys[key] for key in sweeper_queries.ended_attempts(sorted(keys))]
    if unused:
        runner.cancel(unused)
    _read_output(runner, {each for each in keys.values() if not states[each]}.difference(unused))
    return len(woken) + len(unused)


def _read_output(runner: RemoteRunner, handles: Collection[str]) -> None:
    """Store what calls that run have printed."""
    chosen = sorted(handles)
    if len(chosen) > _READ_AT_ONCE:
        chosen = random.sample(chosen, _READ_AT_ONCE)
    if chosen:
        live_output.store(runner.outputs(chosen))
