"""What a process has loaded once it is ready stays until it ends: nobody need look through it.

Python's full garbage collection visits every object: some 290,000 of code, models and schemas, a
tenth of a second and more in which a process answers nobody.
"""

from __future__ import annotations

import gc


def freeze_loaded_objects() -> None:
    """Keep what is loaded by now out of every later garbage collection.

    Called once, before a process takes up its work; before it forks, so that its children go on
    sharing the memory instead of copying what a collection has marked.
    """
    gc.collect()
    gc.freeze()
