"""Sources of a new task's arguments: inputs, context, outputs of earlier tasks."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from graphrag import tokenizer
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import schemas

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WHOLE = frozenset({"", "result", "output", "value", "data", "content", "text"})
_CONTENT = tokenizer.stem_set(
    "value text content data input body lines xml json csv html markdown document items"
    " source string raw payload"
)
_NAMES_FILES = tokenizer.stem_set("path file filename name")
_ALIAS_FIT = 0.62
_CONTEXT_FIT = 1.0
_ALIASES = tuple(
    tokenizer.stem_set(line)
    for line in (
        "path file filename filepath directory folder dir location",
        "url uri link href address",
        "query question search term keyword",
        "text content body message markdown value data",
        "repo repository",
        "max limit count number top size",
    )
)


@dataclass(frozen=True, slots=True)
class Source:
    """A value that a plan can refer to. ``origin``: ``inputs``, ``context`` or a task id.

    ``name`` is the name of the value, empty for the whole output of a task. ``length`` is the
    length of a list among inputs or context. ``by_ending``: chosen from a list by its suffix.
    """

    origin: str
    select: str
    name: str
    types: frozenset[str]
    item_types: frozenset[str] = frozenset()
    length: int | None = None
    by_ending: bool = False

    def reference(self, select: str | None = None) -> dict[str, str]:
        """Return the reference in plan syntax."""
        chosen = self.select if select is None else select
        return {"$from": self.origin, "select": chosen} if chosen else {"$from": self.origin}

    @property
    def is_whole(self) -> bool:
        """Whether the value is the whole output of a task."""
        return self.origin not in ("inputs", "context") and self.select in _WHOLE


def identifier(name: str) -> str:
    """Quote a property name for JMESPath."""
    return name if _PLAIN.match(name) else json.dumps(name)


def sources_of_values(origin: str, values: Mapping[str, Any]) -> Iterator[Source]:
    """Yield one source per key of the execution's inputs or context."""
    for name, value in values.items():
        array = value if isinstance(value, list | tuple) else None
        item_types = frozenset(schemas.type_of(item) for item in array or ())
        yield Source(
            origin,
            identifier(str(name)),
            str(name),
            frozenset((schemas.type_of(value),)),
            item_types,
            None if array is None else len(array),
        )


def sources_of_task(task: str, record: ToolRecord | None, extension: str = "") -> Iterator[Source]:
    """Yield the sources of a task's output: properties and list items by schema, and the whole.

    A list provides its first item, or the first whose name ends with ``extension``.
    """
    schema = record.output_schema if record else None
    for name, part in schemas.properties_of(schema).items():
        select = identifier(name)
        yield Source(task, select, name, schemas.types_of(part), _item_types(part))
        yield from _sources_of_items(task, select, name, part, extension)
    yield Source(task, "", "", schemas.types_of(schema), _item_types(schema))
    yield from _sources_of_items(task, "", "", schema, extension)


def _item_types(schema: Any) -> frozenset[str]:
    return schemas.types_of(schemas.item_schema(schema))


def _sources_of_items(
    task: str, list_: str, name: str, schema: Any, extension: str
) -> Iterator[Source]:
    items = schemas.item_schema(schema)
    types = schemas.types_of(items)
    if types == {"string"}:
        chosen = f"{list_}[?ends_with(@, '.{extension}')] | [0]" if extension else f"{list_}[0]"
        yield Source(task, chosen, name, types, by_ending=bool(extension))
    for key, part in schemas.properties_of(items).items():
        kind, field = schemas.types_of(part), identifier(key)
        by_ending = bool(extension) and kind == {"string"} and is_file_name(key)
        chosen = (
            f"{list_}[?ends_with({field}, '.{extension}')].{field} | [0]"
            if by_ending
            else f"{list_}[0].{field}"
        )
        yield Source(task, chosen, key, kind, by_ending=by_ending)


def is_file_name(name: str) -> bool:
    """Whether a parameter name denotes a file: ``path``, ``file_name``."""
    return not _NAMES_FILES.isdisjoint(tokenizer.name_stems(name))


def fit(parameter: str, schema: Any, source: Source) -> float:
    """Return how well a source fits a parameter, 0 to 1, by name and compatible types."""
    wanted = schemas.types_of(schema)
    if source.is_whole:
        if not schemas.feeds(source.types, wanted):
            return 0.0
        return 0.6 if tokenizer.name_stems(parameter) & _CONTENT else 0.0
    if source.by_ending and is_file_name(parameter):
        return 1.0 if schemas.feeds(source.types, wanted) else 0.0
    whole, each = schemas.feeds(source.types, wanted), can_fan_out(schema, source)
    if not (whole or each):
        return 0.0
    similarity = name_similarity(parameter, source.name)
    # A value that the agent provided for this change precedes a value with an equal name.
    return _CONTEXT_FIT if source.origin == "context" and similarity >= _ALIAS_FIT else similarity


def can_fan_out(schema: Any, source: Source) -> bool:
    """Whether the items of a known list could fill a scalar parameter one at a time."""
    wanted = schemas.types_of(schema)
    return (
        bool(source.length)
        and "array" in source.types
        and "array" not in wanted
        and bool(wanted)
        and schemas.feeds(source.item_types, wanted)
    )


@lru_cache(maxsize=16_384)
def name_similarity(parameter: str, given: str) -> float:
    """Return the similarity of two names, 0 to 1. Key: the names; bound: 16,384; constant."""
    if parameter == given:
        return 1.0
    first, second = tokenizer.name_stems(parameter), tokenizer.name_stems(given)
    if not first or not second:
        return 0.0
    if first == second:
        return 0.95
    if first <= second or second <= first:
        return 0.75
    if any(first & alias and second & alias for alias in _ALIASES):
        return _ALIAS_FIT
    return 0.3 if first & second else 0.0


def best_source(
    parameter: str, schema: Any, sources: Iterable[Source], at_least: float
) -> Source | None:
    """Return the source with the best fit; the earlier of equals."""
    scored = [(fit(parameter, schema, source), source) for source in sources]
    good = [pair for pair in scored if pair[0] >= at_least]
    return max(good, key=lambda pair: (pair[1].by_ending, pair[0]))[1] if good else None
