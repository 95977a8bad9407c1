"""What a remote task has printed, and its progress: bounded, and cleaned for people.

It comes from a process of a cluster, so every text is treated as hostile.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from workflows.engine.values.bounded_json import BoundedJSONError, parse

#: Characters, lines and characters of a line that are kept: the newest lines, the start of a line.
MAX_TEXT: Final = 20_000
MAX_LINES: Final = 200
MAX_LINE: Final = 2_000

#: Escape sequences of terminals: colors, movements, titles.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]"
)
_LINE_END = re.compile(r"[\r\n]")
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])


@dataclass(frozen=True, slots=True)
class Output:
    """The last lines that a task has printed, and the share of its work that is done."""

    logs: str = ""
    progress: float | None = None

    def as_json(self) -> str:
        """Return the text that `of_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: object) -> Output:
        """Return the output in a text that is not trusted; a malformed text has no output."""
        try:
            value = parse(text if isinstance(text, (str, bytes)) else "")
        except BoundedJSONError:
            return cls()
        if not isinstance(value, dict):
            return cls()
        logs = value.get("logs")
        return cls(clean(logs) if isinstance(logs, str) else "", _share_of(value.get("progress")))


def _share_of(value: object) -> float | None:
    """Return a share from 0 to 1, None for anything else."""
    # Compared before it is converted: a whole number may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        return None
    return float(value)


def tail(text: str, limit: int) -> str:
    """Return the end of a text, from the start of a line on."""
    if len(text) <= limit:
        return text
    _, *rest = _LINE_END.split(text[-limit:], maxsplit=1)
    return rest[0] if rest else ""


def clean(text: str) -> str:
    """Return the last lines of a text as PostgreSQL and people can read them.

    Escape sequences and control characters are removed.  Of a line that a progress bar has written
    again and again, the last version is kept.  A text is cut between lines and a line at its end,
    so that a secret keeps the name in front of it by which it is masked.
    """
    text = tail(text, 8 * MAX_TEXT).encode("utf-8", "replace").decode()
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return _last_lines([line.translate(_CONTROLS)[:MAX_LINE] for line in lines])


def _last_lines(lines: list[str]) -> str:
    """Return as many of the last lines as the limits allow."""
    kept: list[str] = []
    room = MAX_TEXT
    for line in reversed(lines[-MAX_LINES - 1 :]):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept)).strip("\n")
