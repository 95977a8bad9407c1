"""The clock of PostgreSQL, which jumps with Debian's libfaketime; without it the clock is right.

All times that count are the database's. Python does not run with a false clock: its `time.sleep`
fails at times (EINVAL), because libfaketime 0.9.10 miscounts sleeps until a moment.
"""

from __future__ import annotations

from pathlib import Path

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


class Clock:
    """What the processes that are started with `words` see as the time of day.

    Their monotonic clock goes on as it does.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._ahead = folder / "clock", 0
        self.jump(0)

    @property
    def words(self) -> list[str]:
        """The beginning of a command line."""
        if LIBRARY is None:
            return []
        variables = {
            "LD_PRELOAD": LIBRARY,
            "FAKETIME_TIMESTAMP_FILE": self._path,
            "FAKETIME_CACHE_DURATION": 1,
            "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        }
        return ["env", *(f"{name}={value}" for name, value in variables.items())]

    def jump(self, seconds: int) -> None:
        """Set the clock forward, or back, within a second."""
        self._ahead += seconds
        draft = self._path.with_suffix(".draft")
        draft.write_text(f"{self._ahead:+d}\n")
        draft.chmod(0o644)
        draft.replace(self._path)
