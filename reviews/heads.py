"""Heads of the chain of records, noted outside the database: what was cut off later shows.

Every line of the file is `{"at", "sequence", "hash"}`.  Put it where the database's administrator
cannot write, or ship it away; `manage.py verify_audit --heads FILE` compares.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from . import conf
from .models import HumanReviewRecord

_TAIL_BYTES = 4096


def note_head() -> int:
    """Append the present head when it is news and the last one is old enough; 1 when it did.

    The sweeper's.  A file that cannot be written is the operator's to mend: it raises OSError,
    which the sweeper logs.
    """
    path = conf.heads_file()
    newest = HumanReviewRecord.objects.order_by("-id").values_list("hash", "canonical").first()
    if path is None or newest is None:
        return 0
    head, text = newest
    last = _last(path)
    now = datetime.now(UTC)
    if last and (last["hash"] == head or now - _moment(last) < _apart()):
        return 0
    line = {"at": now.isoformat(), "sequence": json.loads(text).get("sequence"), "hash": head}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return 1


def noted(path: Path) -> list[str]:
    """The hashes of a file of heads; raises ValueError naming the line that is none."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            found.append(str(json.loads(line)["hash"]))
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"line {number} of {path} is no head") from None
    return found


def _apart() -> timedelta:
    return timedelta(seconds=conf.heads_seconds())


def _moment(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["at"])


def _last(path: Path) -> dict[str, Any] | None:
    """The last whole line; None where there is none (a torn one is written anew)."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            rows = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    for row in reversed(rows):
        try:
            line: dict[str, Any] = json.loads(row)
            _moment(line)
        except (ValueError, KeyError, TypeError):
            continue
        return line
    return None
