"""End this process when the process that started it ends, however that one ends.

Without this, `kill -9` of a supervisor or of a worker pool leaves its children to run on for ever.
SIGKILL is right here: every process of the product may be killed at any time without a loss, and a
process that first finishes what it does may take an hour.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Final

#: Set by a parent for the processes that must not outlive it: its process id.
VARIABLE: Final = "HOLDPOINT_STARTED_BY"

#: How often to look at the parent where the kernel does not tell of its end.
LOOK_SECONDS: Final = 1.0

_PR_SET_PDEATHSIG: Final = 1


def end_with_starter() -> None:
    """Do as `end_with` says if the parent asked for it in the environment."""
    starter = os.environ.pop(VARIABLE, "")  # our own children have another parent
    if starter.isdecimal():
        end_with(int(starter))


def end_with(parent: int) -> None:
    """Have this process killed as soon as `parent`, the process that started it, is gone.

    On Linux the kernel does it when the thread of the parent ends that started this process: start
    such children from the main thread. Elsewhere a thread looks once a second.
    """
    if not _ask_kernel():
        thread = threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True)
        thread.start()
    if os.getppid() != parent:
        # The parent ended before the kernel was asked, so the kernel will send no signal.
        _end()


def _ask_kernel() -> bool:
    """Whether the kernel will send SIGKILL at the parent's end."""
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
