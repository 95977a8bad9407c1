"""Three-way merge of JSON values: the shown value, the present value, and the user's edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reviews.components.json_diffs import MISSING, Path, same
from workflows.engine.values.bounded_json import JSON, path_text


@dataclass(frozen=True, slots=True)
class MergeRow:
    """One path at which the versions differ; a version without the path has MISSING.

    `outcome` says whose value was taken: theirs, mine, both (the same edit twice), or conflict
    (both edited it differently; `merged` then holds mine).
    """

    path: Path
    base: JSON
    theirs: JSON
    mine: JSON
    merged: JSON
    outcome: str

    @property
    def dotted(self) -> str:
        """Return the path for people: `items[3].name`."""
        return path_text(self.path)


@dataclass(frozen=True, slots=True)
class MergeResult:
    """`merged` has the edits of both sides; `rows` has every path that differs."""

    merged: JSON
    conflicts: tuple[MergeRow, ...]
    rows: tuple[MergeRow, ...]


def merge(base: JSON, theirs: JSON, mine: JSON) -> MergeResult:
    """Merge two edits of `base` path by path.

    Objects are merged by key, arrays item by item if all three have equal lengths; otherwise an
    array is one value. If both edited a path differently, `merged` has mine and the path is in
    `conflicts`.
    """
    rows: list[MergeRow] = []
    merged = _merge((), base, theirs, mine, rows)
    conflicts = tuple(row for row in rows if row.outcome == "conflict")
    return MergeResult(merged, conflicts, tuple(rows))


def _merge(path: Path, base: Any, theirs: Any, mine: Any, rows: list[MergeRow]) -> Any:
    if same(theirs, mine) and same(base, mine):
        return mine
    three = (base, theirs, mine)
    if all(isinstance(value, dict) for value in three):
        return _merge_objects(path, base, theirs, mine, rows)
    if all(isinstance(value, list) for value in three) and len({*map(len, three)}) == 1:
        parts = enumerate(zip(base, theirs, mine, strict=True))
        return [_merge((*path, n), b, t, m, rows) for n, (b, t, m) in parts]
    outcome = _outcome(base, theirs, mine)
    merged = theirs if outcome == "theirs" else mine
    rows.append(MergeRow(path, base, theirs, mine, merged, outcome))
    return merged


def _merge_objects(
    path: Path,
    base: dict[str, Any],
    theirs: dict[str, Any],
    mine: dict[str, Any],
    rows: list[MergeRow],
) -> dict[str, Any]:
    merged = {}
    for key in {**base, **theirs, **mine}:
        b, t, m = (side.get(key, MISSING) for side in (base, theirs, mine))
        value = _merge((*path, key), b, t, m, rows)
        if value is not MISSING:
            merged[key] = value
    return merged


def _outcome(base: Any, theirs: Any, mine: Any) -> str:
    if same(theirs, mine):
        return "both"
    if same(base, theirs):
        return "mine"
    return "theirs" if same(base, mine) else "conflict"
