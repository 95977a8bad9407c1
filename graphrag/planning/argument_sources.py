"""Sources of a new task's arguments: inputs, context, outputs of earlier tasks."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from graphrag import tokenizer
from graphrag.catalogue.tool_record import ToolRecord, own_name
from graphrag.planning import parameters, schemas
from graphrag.planning.intents import Step
from graphrag.planning.parameters import Parameter

#: Values of one origin that are compared with parameters: inputs, context, or outputs of tasks.
MAX_SOURCES = 200
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WHOLE = frozenset({"", "result", "output", "value", "data", "content", "text"})
_NAMES_FILES = tokenizer.stem_set("path file filename name")
_READS = tokenizer.stem_set(
    "get list search read fetch find query extract show describe retrieve view lookup logs history"
    " status download open crawl export"
)
_MAKES = tokenizer.stem_set("create add make insert post upload copy fork start open send")
_PAGES = tokenizer.stem_set("page article site website link url result")
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
    ``server`` and ``subjects`` belong to the tool that returns the value: its server, and the
    stems of its name. ``is_read`` when that tool returns what it has read.
    """

    origin: str
    select: str
    name: str
    types: frozenset[str]
    item_types: frozenset[str] = frozenset()
    length: int | None = None
    by_ending: bool = False
    server: str = ""
    subjects: frozenset[str] = frozenset()
    is_read: bool = True

    def reference(self, select: str | None = None) -> dict[str, str]:
        """Return the reference in plan syntax."""
        chosen = self.select if select is None else select
        return {"$from": self.origin, "select": chosen} if chosen else {"$from": self.origin}

    @property
    def is_of_task(self) -> bool:
        """Whether the value comes from the output of a task."""
        return self.origin not in ("inputs", "context")

    @property
    def tells(self) -> bool:
        """Whether the output tells which thing is meant: it was read, or has been made."""
        return self.is_read or bool(self.subjects & _MAKES)

    @property
    def is_whole(self) -> bool:
        """Whether the value is the whole output of a task."""
        return self.is_of_task and self.select in _WHOLE


def identifier(name: str) -> str:
    """Quote a property name for JMESPath."""
    return name if _PLAIN.match(name) else json.dumps(name)


def sources_of_values(origin: str, values: Mapping[str, Any]) -> Iterator[Source]:
    """Yield one source per key of the execution's inputs or context, MAX_SOURCES at most.

    A key whose value is null gives nothing to an argument.
    """
    given = ((name, value) for name, value in values.items() if value is not None)
    for name, value in islice(given, MAX_SOURCES):
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

    A list provides its first item, or the first whose name ends with ``extension``. Yields
    MAX_SOURCES at most.
    """
    schema = record.output_schema if record else None
    for source in islice(_sources_of_output(task, schema, extension), MAX_SOURCES):
        if record is None:
            yield source
        else:
            subjects = parameters.name_stems(own_name(record)) | parameters.name_stems(source.name)
            reads = record.read_only or not _READS.isdisjoint(subjects)
            yield replace(source, server=record.server, subjects=subjects, is_read=reads)


def _sources_of_output(task: str, schema: Any, extension: str) -> Iterator[Source]:
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
        extension = extension if is_file_name(name) else ""
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


def fit(parameter: Parameter, source: Source, step: Step) -> float:
    """Return how well a source fits a parameter, 0 to 1, by name, types and the step's words."""
    wanted = parameter.types
    whole, each = schemas.feeds(source.types, wanted), can_fan_out(parameter.schema, source)
    if not (whole or each):
        return 0.0
    if source.is_whole:
        return _fit_of_output(parameter, source, step)
    if source.by_ending and is_file_name(parameter.name):
        return 1.0
    similarity = name_similarity(parameter.name, source.name)
    if source.origin == "context" and similarity >= _ALIAS_FIT:
        # A value that the agent provided for this change precedes a value with an equal name.
        return _CONTEXT_FIT
    if source.is_of_task and parameter.is_locator and not _same_thing(parameter, source):
        return 0.0
    return similarity


def _same_thing(parameter: Parameter, source: Source) -> bool:
    """Whether both denote one kind of thing: any file, or an entity of the same server."""
    if parameter.is_path or parameter.is_url:
        return True
    entity = parameter.entity or parameter.tool_stems
    return source.server == parameter.tool.server and bool(entity & source.subjects)


def _fit_of_output(parameter: Parameter, source: Source, step: Step) -> float:
    """Return how well the whole output of a task fits.

    A free text takes any output. A parameter that says which thing is meant takes the output of a
    tool of the same server for that kind of thing ("search_issues" for ``issue_number``), or the
    one that "it" and "the page" refer to.
    """
    if not parameter.takes_scalars:
        return 0.0
    if parameter.is_content:
        return 0.8 if step.refers_back else 0.6 if source.is_read else 0.0
    if source.server != parameter.tool.server or not parameter.is_required or not source.tells:
        return 0.0
    if parameter.entity & source.subjects:
        return 0.65
    return 0.62 if denotes(parameter, step.referents) else 0.0


def denotes(parameter: Parameter, things: frozenset[str]) -> bool:
    """Whether a parameter says which of some things is meant.

    Its name does (``page_id``), a URL that of a page, and a title or name of which the description
    says so ("the title of the article"). A bare ``id`` does not.
    """
    if parameter.entity & things and not parameter.is_title:
        return True
    if parameter.is_url and _PAGES & things:
        return True
    return parameter.is_title and bool(parameter.described_stems & things)


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
    first, second = parameters.name_stems(parameter), parameters.name_stems(given)
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
    parameter: Parameter, sources: Iterable[Source], step: Step, at_least: float
) -> Source | None:
    """Return the source with the best fit; the earlier of equals."""
    scored = [(fit(parameter, source, step), source) for source in sources]
    good = [pair for pair in scored if pair[0] >= at_least]
    return max(good, key=lambda pair: (pair[1].by_ending, pair[0]))[1] if good else None
