"""Fill a tool's arguments from inputs, context, earlier outputs and the text of the step."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag import tokenizer
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import argument_sources, schemas
from graphrag.planning.argument_sources import Source
from graphrag.planning.intents import ABOUT, Step

_REQUIRED_FIT = 0.6
_OPTIONAL_FIT = 0.95
_QUERY_NAMES = frozenset({"query", "q", "search_query", "question", "topic", "term", "search_term"})
_QUERY_LANGUAGES = re.compile(r"\b(sql|jql|cql|jmespath|xpath|regex)\b", re.IGNORECASE)
_PATH_STEMS = tokenizer.stem_set("path file filename directory folder dir repo repository")
_URL_STEMS = tokenizer.stem_set("url uri link href")
_COUNT_STEMS = tokenizer.stem_set("count limit max maximum number top results")


@dataclass(frozen=True, slots=True)
class FilledArguments:
    """Arguments of one task in plan syntax, and the required ones without a source."""

    values: dict[str, Any]
    missing: tuple[str, ...] = ()

    @property
    def uses(self) -> frozenset[str]:
        """The ids of the tasks whose outputs the arguments refer to."""
        origins = {
            value["$from"]
            for value in self.values.values()
            if isinstance(value, dict) and "$from" in value
        }
        return frozenset(origins - {"inputs", "context"})


def fill(
    record: ToolRecord, *, step: Step, available: Sequence[Source], most: int = 1
) -> list[FilledArguments]:
    """Fill the arguments of one task, or of up to ``most`` tasks, one per item of a known list.

    A required argument without a source refers to an input of its own name, which is listed in
    ``missing``, so that a caller can provide it.
    """
    values: dict[str, Any] = {}
    missing: list[str] = []
    spread: tuple[str, Source] | None = None
    place = _optional_path_parameter(record, step)
    for name, schema in record.parameters.items():
        required = name in record.required
        wanted = required or name == place
        found = _value(record, name, schema, step, available, required=wanted)
        if isinstance(found, Source):
            if argument_sources.can_fan_out(schema, found) and required and spread is None:
                spread = (name, found)
            found = found.reference()
        if found is not None:
            values[name] = found
        elif required and "default" not in _as_mapping(schema):
            values[name] = {"$from": "inputs", "select": argument_sources.identifier(name)}
            missing.append(name)
    return list(_fan_out(values, tuple(missing), spread, most))


def _optional_path_parameter(record: ToolRecord, step: Step) -> str | None:
    """Return the optional parameter for a path in the text, if no required one takes it."""
    if not step.literals.paths:
        return None
    places = [
        name
        for name, schema in record.parameters.items()
        if _literal(name, schema, step) in step.literals.paths
    ]
    return None if {*record.required} & {*places} else next(iter(places), None)


def _as_mapping(schema: Any) -> dict[str, Any]:
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

    An exact match of names precedes a literal of the text, and a literal precedes a similar name;
    a path in the text precedes files that an earlier task found.
    """
    exact = argument_sources.best_source(name, schema, available, _OPTIONAL_FIT)
    literal = _literal(name, schema, step)
    found = exact is not None and exact.origin not in ("inputs", "context")
    if exact is not None and not (found and literal in step.literals.paths):
        return exact
    if literal is not None and (required or not isinstance(literal, str)):
        return literal
    if not required:
        return None
    near = argument_sources.best_source(name, schema, available, _REQUIRED_FIT)
    if near is not None:
        return near
    choices = _as_mapping(schema).get("enum")
    if isinstance(choices, list) and len(choices) == 1:
        return choices[0]
    return _search_text(record, name, schema, step)


def _literal(name: str, schema: Any, step: Step) -> Any:
    """Return a literal of the step that suits the parameter, or None."""
    found, stems, wanted = step.literals, set(tokenizer.stems(name)), schemas.types_of(schema)
    if found.urls and (stems & _URL_STEMS or _as_mapping(schema).get("format") == "uri"):
        return found.urls[0]
    if found.numbers and wanted & {"integer", "number"} and stems & _COUNT_STEMS:
        return found.numbers[0]
    if "string" not in wanted:
        return None
    if found.paths and stems & _PATH_STEMS:
        return found.paths[0]
    return found.quoted[0] if found.quoted and not stems & _PATH_STEMS else None


def _search_text(record: ToolRecord, name: str, schema: Any, step: Step) -> str | None:
    """Return the object of the step for a search tool; None for tools with a query language."""
    if name not in _QUERY_NAMES or "string" not in schemas.types_of(schema):
        return None
    described = f"{record.name} {record.description} {_as_mapping(schema).get('description', '')}"
    if _QUERY_LANGUAGES.search(described):
        return None
    return ABOUT.split(step.text, maxsplit=1)[-1].strip(" .?!")


def _fan_out(
    values: dict[str, Any], missing: tuple[str, ...], spread: tuple[str, Source] | None, most: int
) -> Iterator[FilledArguments]:
    if spread is None:
        yield FilledArguments(values, missing)
        return
    name, source = spread
    for at in range(min(source.length or 0, max(1, most))):
        one = source.reference(f"{source.select}[{at}]")
        yield FilledArguments({**values, name: one}, missing)
