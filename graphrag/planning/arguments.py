"""Fills a tool's arguments from what is there: inputs, context, earlier outputs, the words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag import text
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import argument_sources, schemas
from graphrag.planning.argument_sources import Source
from graphrag.planning.intents import ABOUT, Step

_REQUIRED_FIT = 0.6
_OPTIONAL_FIT = 0.95
_QUERY_NAMES = frozenset({"query", "q", "search_query", "question", "topic", "term", "search_term"})
_QUERY_LANGUAGES = re.compile(r"\b(sql|jql|cql|jmespath|xpath|regex)\b", re.IGNORECASE)
_PATH_STEMS = text.stem_set("path file filename directory folder dir repo repository")
_URL_STEMS = text.stem_set("url uri link href")
_COUNT_STEMS = text.stem_set("count limit max maximum number top results")


@dataclass(frozen=True, slots=True)
class Filled:
    """Arguments of one task as a plan writes them, and required ones nothing could fill."""

    values: dict[str, Any]
    missing: tuple[str, ...] = ()

    @property
    def uses(self) -> frozenset[str]:
        """Ids of the tasks whose outputs the arguments refer to."""
        origins = {
            value["$from"]
            for value in self.values.values()
            if isinstance(value, dict) and "$from" in value
        }
        return frozenset(origins - {"inputs", "context"})


def fill(
    record: ToolRecord, *, step: Step, available: Sequence[Source], most: int = 1
) -> list[Filled]:
    """Arguments for one task, or for up to ``most`` when a known list feeds a single value.

    A required argument that nothing fits refers to an input of its own name, which is also named
    in ``missing``: a person or a caller can give it.
    """
    values: dict[str, Any] = {}
    missing: list[str] = []
    spread: tuple[str, Source] | None = None
    place = _place(record, step)
    for name, schema in record.parameters.items():
        required = name in record.required
        asked = required or name == place
        found = _value(record, name, schema, step, available, required=asked)
        if isinstance(found, Source):
            if argument_sources.may_spread(schema, found) and required and spread is None:
                spread = (name, found)
            found = found.reference()
        if found is not None:
            values[name] = found
        elif required and "default" not in _mapping(schema):
            values[name] = {"$from": "inputs", "select": argument_sources.identifier(name)}
            missing.append(name)
    return list(_spread(values, tuple(missing), spread, most))


def _place(record: ToolRecord, step: Step) -> str | None:
    """The optional parameter that takes a path of the words, where no required one does."""
    if not step.literals.paths:
        return None
    places = [
        name
        for name, schema in record.parameters.items()
        if _literal(name, schema, step) in step.literals.paths
    ]
    return None if {*record.required} & {*places} else next(iter(places), None)


def _mapping(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}


def _value(
    record: ToolRecord,
    name: str,
    schema: Any,
    step: Step,
    available: Sequence[Source],
    *,
    required: bool,
) -> Any:
    """A source, a literal, or None.

    Values given by name win over words, words over likeness; a file that the words name wins over
    those that an earlier task found.
    """
    exact = argument_sources.best(name, schema, available, _OPTIONAL_FIT)
    literal = _literal(name, schema, step)
    found = exact is not None and exact.origin not in ("inputs", "context")
    if exact is not None and not (found and literal in step.literals.paths):
        return exact
    if literal is not None and (required or not isinstance(literal, str)):
        return literal
    if not required:
        return None
    near = argument_sources.best(name, schema, available, _REQUIRED_FIT)
    if near is not None:
        return near
    choices = _mapping(schema).get("enum")
    if isinstance(choices, list) and len(choices) == 1:
        return choices[0]
    return _question(record, name, schema, step)


def _literal(name: str, schema: Any, step: Step) -> Any:
    """A value the step itself names, when the parameter is of its kind."""
    found, stems, wanted = step.literals, set(text.stems(name)), schemas.types_of(schema)
    if found.urls and (stems & _URL_STEMS or _mapping(schema).get("format") == "uri"):
        return found.urls[0]
    if found.numbers and wanted & {"integer", "number"} and stems & _COUNT_STEMS:
        return found.numbers[0]
    if "string" not in wanted:
        return None
    if found.paths and stems & _PATH_STEMS:
        return found.paths[0]
    return found.quoted[0] if found.quoted and not stems & _PATH_STEMS else None


def _question(record: ToolRecord, name: str, schema: Any, step: Step) -> str | None:
    """For a tool that searches: what the step asks about. Never for a query language."""
    if name not in _QUERY_NAMES or "string" not in schemas.types_of(schema):
        return None
    described = f"{record.name} {record.description} {_mapping(schema).get('description', '')}"
    if _QUERY_LANGUAGES.search(described):
        return None
    return ABOUT.split(step.text, maxsplit=1)[-1].strip(" .?!")


def _spread(
    values: dict[str, Any], missing: tuple[str, ...], spread: tuple[str, Source] | None, most: int
) -> Iterator[Filled]:
    if spread is None:
        yield Filled(values, missing)
        return
    name, source = spread
    for at in range(min(source.length or 0, max(1, most))):
        one = source.reference(f"{source.select}[{at}]")
        yield Filled({**values, name: one}, missing)
