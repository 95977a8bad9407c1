"""Kill this process when its parent process ends, for any reason.

Without it, children of a supervisor or worker pool that gets SIGKILL run forever. SIGKILL is safe:
every process of the product may be killed at any time without data loss, and a graceful exit could
take an hour.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

#: Environment variable in which a supervisor passes its process id to its processes.
VARIABLE: Final = "HOLDPOINT_STARTED_BY"

#: Polling interval where the kernel does not signal the end of the other process.
LOOK_SECONDS: Final = 1.0

_PR_SET_PDEATHSIG: Final = 1


def end_with_starter() -> None:
    """Kill this process when the supervisor named in the environment ends.

    The supervisor need not be the parent, so a thread looks for it once a second.
    """
    starter = os.environ.pop(VARIABLE, "")  # not meant for children of this process
    if not starter.isdecimal():
        return
    if not _exists(int(starter)):
        _end()
    _watch_in_a_thread(lambda: _exists(int(starter)))


def end_with(parent: int) -> None:
    """Kill this process as soon as its parent process, with the id `parent`, ends.

    On Linux the kernel sends the signal when the thread that started this process ends, so start
    such children from the main thread. On other systems a thread polls once a second.
    """
    if not _ask_kernel():
        _watch_in_a_thread(lambda: os.getppid() == parent)
    if os.getppid() != parent:
        # The parent ended before the call above, so the kernel will not send a signal.
        _end()


def _ask_kernel() -> bool:
    """Ask the kernel to send SIGKILL when the parent ends; return whether it will."""
    if not sys.platform.startswith("linux"):
        return False
    arguments = (ctypes.c_ulong(signal.SIGKILL), *(ctypes.c_ulong(0) for _ in range(3)))
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, *arguments) == 0)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _watch_in_a_thread(goes_on: Callable[[], bool]) -> None:
    def watch() -> None:
        while goes_on():
            time.sleep(LOOK_SECONDS)
        _end()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
