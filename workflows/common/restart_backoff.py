"""The pause before a process that has ended is started again."""

from __future__ import annotations

FIRST_PAUSE = 0.5  # seconds before the first restart; doubled for each further one
MAX_PAUSE = 15.0
STEADY_SECONDS = 30.0  # uptime after which the pause is short again


class Backoff:
    """The growing pauses between the restarts of one process."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE

    def next_pause(self, uptime: float) -> float:
        """Return the seconds to wait before the restart of a process that ran for `uptime`."""
        pause = FIRST_PAUSE if uptime > STEADY_SECONDS else self._pause
        self._pause = min(pause * 2, MAX_PAUSE)
        return pause
