"""Replaces values that differ between runs in recorded responses by constant ones.

Times keep their order and their whole minutes, and begin at one moment in each example; times a
machine took, tokens, secrets and random names are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from reviews.audit.chain import record_hash
from reviews.audit.signing import sign
from workflows.engine.values.bounded_json import canonical, digest

BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
#: A pause as long as this is a deadline's; shorter ones are the machine's.
_DEADLINE = timedelta(seconds=30)
_TOOK = {"duration_ms": 12.5, "durationMs": 12.5, "waited_seconds": 42.5, "ms": 12}
_TEXTS: tuple[tuple[str, str], ...] = (
    (r"http://testserver", "https://holdpoint.example.com"),
    (r"http://127\.0\.0\.1:\d+", "https://example.com"),
    (r"hp_\w{8}_[\w-]{43}", "hp_Example0_" + "0" * 43),
    (r"hp_\w{8}$", "hp_Example0"),
    (r"whsec_[\w+/=-]+", "whsec_RXhhbXBsZSBvZiBhIHNpZ25pbmcgc2VjcmV0IDAwMDA="),
    (r"(ping|evt|msg)_[0-9a-f]{32}", r"\1_" + "0" * 31 + "1"),
)


def steady_all(examples: dict[str, Any]) -> dict[str, Any]:
    """The examples by name; the digest that one has of another's report is the new one."""
    new = {name: steady(example) for name, example in examples.items()}
    digests = {
        old: made
        for name in examples
        for old, made in zip(_digests(examples[name]), _digests(new[name]), strict=True)
        if old != made
    }
    changed: dict[str, Any] = _mapped(
        new, lambda _, value: digests.get(value, value) if isinstance(value, str) else value
    )
    return changed


def _digests(example: Any) -> list[str]:
    return [value for key, value in _leaves(example) if key == "digest"]


def steady(example: Any) -> Any:
    """The example (a JSON value) as every run would give it."""
    moments = _moments(example)
    plain = _mapped(example, lambda key, value: _leaf(key, value, moments))
    return _sealed(plain)


def _moments(example: Any) -> dict[datetime, datetime]:
    """Each moment of the example (to the millisecond) → the one to write instead."""
    found: set[datetime] = set()
    for key, value in _leaves(example):
        if isinstance(value, str):
            found |= {_read(text) for text in _MOMENT.findall(value)}
        elif key == "timestamp" and isinstance(value, int):
            found.add(_of_milliseconds(value))
    new: dict[datetime, datetime] = {}
    last = None
    for moment in sorted(found):
        new[moment] = new[last] + _pause(moment - last) if last else BEGIN
        last = moment
    return new


def _pause(real: timedelta) -> timedelta:
    if real < _DEADLINE:
        return timedelta(seconds=1)
    return timedelta(minutes=max(1, round(real / timedelta(minutes=1))))


def _read(text: str) -> datetime:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _of_milliseconds(number: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=number)


def _leaf(key: str, value: Any, moments: dict[datetime, datetime]) -> Any:
    if key in _TOOK and isinstance(value, int | float):
        return _TOOK[key] if value else value
    if key == "timestamp" and isinstance(value, int):
        return int(moments[_of_milliseconds(value)].timestamp() * 1000)
    if not isinstance(value, str):
        return value
    text = _MOMENT.sub(lambda found: f"{moments[_read(found[0])]:%Y-%m-%dT%H:%M:%SZ}", value)
    for pattern, instead in _TEXTS:
        text = re.sub(pattern, instead, text)
    return text


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, key)
    else:
        yield key, value


def _mapped(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _mapped(each, change, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_mapped(each, change, key) for each in value]
    return change(key, value)


def _rehash(row: dict[str, Any], time: str, changed: dict[str, Any]) -> None:
    """Make the signed text of a record or receipt again, and its hash, after times were changed."""
    moment = f"{_read(row[time]):%Y-%m-%dT%H:%M:%S.%f+00:00}"
    row["canonical"] = canonical(json.loads(row["canonical"]) | {time: moment} | changed)
    row["hash"] = record_hash(row["previous_hash"], row["canonical"])


def _sealed(value: Any) -> Any:
    """Hashes of what was changed, made again: of review records, and of reports."""
    if isinstance(value, list):
        return [_sealed(each) for each in value]
    if not isinstance(value, dict):
        return value
    new = {key: _sealed(each) for key, each in value.items()}
    if "receipts" in new and "canonical" in new:
        _rehash(new, "reviewed_at", {"waited_seconds": new["waited_seconds"]})
        for receipt in new["receipts"]:
            receipt["decision_hash"] = new["hash"]
            _rehash(receipt, "executed_at", {"decision_hash": new["hash"]})
        new["signature"] = sign("record", new["hash"])
    if new.get("report") and new.get("digest"):
        new["digest"] = digest(new["report"])
    return new
