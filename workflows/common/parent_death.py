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
from typing import Final

#: Environment variable in which a parent passes its process id to such children.
VARIABLE: Final = "HOLDPOINT_STARTED_BY"

#: Polling interval on systems whose kernel does not signal the end of the parent.
LOOK_SECONDS: Final = 1.0

_PR_SET_PDEATHSIG: Final = 1


def end_with_starter() -> None:
    """Call `end_with` if the parent requests it in the environment."""
    starter = os.environ.pop(VARIABLE, "")  # children of this process have another parent
    if starter.isdecimal():
        end_with(int(starter))


def end_with(parent: int) -> None:
    """Kill this process as soon as its parent process, with the id `parent`, ends.

    On Linux the kernel sends the signal when the thread that started this process ends, so start
    such children from the main thread. On other systems a thread polls once a second.
    """
    if not _ask_kernel():
        thread = threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True)
        thread.start()
    if os.getppid() != parent:
        # The parent ended before the call above, so the kernel will not send a signal.
        _end()


def _ask_kernel() -> bool:
    """Ask the kernel to send SIGKILL when the parent ends; return whether it will."""
    if not sys.platform.startswith("linux"):
        return False
    arguments = (ctypes.c_ulong(signal.SIGKILL), *(ctypes.c_ulong(0) for _ in range(3)))
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, *arguments) == 0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
