"""Exclude the objects loaded at start-up from garbage collection.

A full collection visits every object. About 290,000 objects of code, models and schemas live as
long as the process; visiting them blocks it for a tenth of a second or more.
While they are loaded, collections find hardly any garbage and take a fifth of the CPU time.
"""

from __future__ import annotations

import gc

#: Allocated objects, less those that were freed, after which Python collects during a start.
LOADING_THRESHOLD = 100_000
#: The same for a process that serves many connections.  With Python's threshold (700), the objects
#: of one notification to 1,000 sockets soon caused a full collection, which blocked all of them.
SERVING_THRESHOLD = 5_000
_usual_thresholds = gc.get_threshold()


def collect_rarely() -> None:
    """Collect garbage rarely until `freeze_loaded_objects`, because modules are loaded next."""
    gc.set_threshold(LOADING_THRESHOLD, *_usual_thresholds[1:])


def freeze_loaded_objects(threshold: int = _usual_thresholds[0]) -> None:
    """Exclude all current objects from later collections, which are as frequent as usual.

    A greater `threshold` makes them rarer.

    Call it once, before a process starts its work and before it forks: children then keep sharing
    the memory, because a collection in a child does not write to these objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(threshold, *_usual_thresholds[1:])
