"""Fill a tool's arguments from inputs, context, earlier outputs and the text of the step."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphrag import tokenizer
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import argument_sources, parameters
from graphrag.planning.argument_sources import Source
from graphrag.planning.intents import VERBS, Step
from graphrag.planning.parameters import Parameter

_REQUIRED_FIT = 0.6
_OPTIONAL_FIT = 0.95
#: Affinity from which a literal of the text is an argument; below, the field stays empty.
_LITERAL_REQUIRED = 0.5
_LITERAL_OPTIONAL = 0.8
_QUERY_LANGUAGES = re.compile(r"\b(sql|jql|cql|jmespath|xpath|regex)\b", re.IGNORECASE)
_WORDS = re.compile(r"[\w-]+|,")
_NO_SERVERS: frozenset[str] = frozenset()
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class FilledArguments:
    """Arguments of one task in plan syntax.

    ``missing`` are required arguments without a source; ``unsure`` refer to the whole output of an
    earlier task of which they need a part. ``taken`` is the sum of the affinities of literals;
    ``unused`` are the values of the text that no argument has.
    """

    values: dict[str, Any]
    missing: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()
    taken: float = 0.0
    unused: tuple[str, ...] = ()

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
    record: ToolRecord,
    *,
    step: Step,
    available: Sequence[Source],
    most: int = 1,
    carried: Mapping[str, Any] | None = None,
    servers: frozenset[str] = _NO_SERVERS,
) -> list[FilledArguments]:
    """Fill the arguments of one task, or of up to ``most`` tasks, one per item of a known list.

    ``carried`` are arguments by name of an earlier task of the same server: the file or repository
    that both work on. A required argument without a source refers to an input of its own name,
    which is listed in ``missing``, so that a caller can provide it.
    """
    listed = parameters.parameters_of(record)
    literals, used, taken = _assigned(listed, step, servers)
    values: dict[str, Any] = {}
    missing: list[str] = []
    unsure: list[str] = []
    spread: tuple[str, Source] | None = None
    for parameter in listed:
        found = _value(parameter, step, available, literals.get(parameter.name), carried or {})
        if isinstance(found, Source):
            fans_out = argument_sources.can_fan_out(parameter.schema, found)
            if fans_out and parameter.is_required and spread is None:
                spread = (parameter.name, found)
            if found.is_whole and not parameter.is_content:
                unsure.append(parameter.name)
            found = found.reference()
        if found is not None:
            values[parameter.name] = found
        elif parameter.is_required and not parameter.has_default:
            values[parameter.name] = _input(parameter.name)
            missing.append(parameter.name)
    landing = _landing(listed, step, available, values, carried or {})
    if landing is not None:
        parameter, source = landing
        values[parameter.name] = source.reference()
        if not parameter.is_content:
            unsure.append(parameter.name)
    filled = FilledArguments(
        {name: values[name] for name in record.parameters if name in values},
        tuple(name for name in record.parameters if name in missing),
        tuple(unsure),
        taken,
        _unused(step, used, values),
    )
    return list(_fan_out(filled, spread, most))


def _landing(
    listed: Sequence[Parameter],
    step: Step,
    available: Sequence[Source],
    values: Mapping[str, Any],
    carried: Mapping[str, Any],
) -> tuple[Parameter, Source] | None:
    """Return the optional parameter that takes what the text refers to, if nothing else did.

    A free text takes the output of an earlier task; otherwise the only parameter that denotes the
    thing does, from a tool of the same server.
    """
    outputs = [source for source in available if source.is_whole]
    lands = any(
        (isinstance(value, Mapping) and "$from" in value) or value == carried.get(name, _NOTHING)
        for name, value in values.items()
    )
    if lands or not outputs or not (step.refers_back or step.definite_stems):
        return None
    free = [each for each in listed if each.name not in values and each.takes_scalars]
    things = step.referents
    newest = next((source for source in outputs if source.is_read), None)
    if newest and (step.refers_back or newest.subjects & things):
        for parameter in free:
            if parameter.is_content:
                return parameter, newest
    denoting = [each for each in free if each.is_locator and argument_sources.denotes(each, things)]
    if len(denoting) == 1:
        (parameter,) = denoting
        for source in outputs:
            if source.server == parameter.tool.server and source.subjects & parameter.entity:
                return parameter, source
    return None


def _unused(step: Step, used: Collection[int], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of the text that no argument has."""
    written = json.dumps(list(values.values()), ensure_ascii=False, default=str).lower()
    return tuple(
        str(each.value)
        for at, each in enumerate(step.literals)
        if at not in used
        and json.dumps(str(each.value), ensure_ascii=False)[1:-1].lower() not in written
    )


def _input(name: str) -> dict[str, str]:
    return {"$from": "inputs", "select": argument_sources.identifier(name)}


def _value(
    parameter: Parameter,
    step: Step,
    available: Sequence[Source],
    literal: Any,
    carried: Mapping[str, Any],
) -> Any:
    """A source, a literal, or None.

    An input or context value of the exact name precedes a literal of the text, and a literal
    precedes everything else.
    """
    exact = argument_sources.best_source(parameter, available, step, _OPTIONAL_FIT)
    if exact is not None and (literal is None or not exact.is_of_task):
        return exact
    if literal is not None:
        return literal
    if not parameter.is_required:
        sole = sum(parameters.is_query_name(name) for name in parameter.tool.parameters) == 1
        return _search_text(parameter, step) if sole and step.has_subject else None
    value = carried.get(parameter.name)
    near = argument_sources.best_source(parameter, available, step, _REQUIRED_FIT)
    # An output precedes an input that an earlier task of the plan already lacks.
    may_carry = value is not None and _may_carry(parameter, step, value)
    if may_carry and (near is None or value != _input(parameter.name)):
        return value
    if near is not None:
        return near
    if len(parameter.choices) == 1:
        return parameter.choices[0]
    return _search_text(parameter, step)


def _may_carry(parameter: Parameter, step: Step, value: Any) -> bool:
    """Whether an argument of an earlier task also holds for this one.

    A title or a folder does only where the text refers to it. A file does not for a tool that
    writes a whole file, unless the text refers to it.
    """
    if parameter.is_content or parameter.is_query or parameter.name == "name":
        return False
    refers = step.refers_back or bool(step.definite_stems)
    if parameter.name != "path":
        return refers or parameter.is_path or not parameter.is_title
    is_file = isinstance(value, str) and "." in value.rpartition("/")[2]
    writes = any(name in parameter.tool.required for name in ("content", "text", "data"))
    return refers or (is_file and not writes)


def _assigned(
    listed: Sequence[Parameter], step: Step, servers: frozenset[str]
) -> tuple[dict[str, Any], set[int], float]:
    """Return parameter name -> value of the text, the literals used, and their affinities' sum.

    A literal fills one parameter at most.
    """
    words = _WORDS.findall(_plain_text(step))
    lower = [word.lower() for word in words]
    choices = {
        parameter.name: choice
        for parameter in listed
        if (choice := parameters.chosen(parameter, lower)) is not None
    }
    nouns = frozenset(tokenizer.stem(choice.lower()) for choice in choices.values())
    values, used = _owner_and_repository(listed, step)
    total = float(len(used))
    for at, parameter, affinity in _pairs(listed, step, parameters.verb_stem(lower), nouns):
        value = parameters.value_for(parameter, step.literals[at])
        if at in used or (parameter.name in values and not isinstance(value, list)):
            continue
        if parameter.name not in values:
            values[parameter.name] = value
        elif _continues(step, at, used):
            values[parameter.name] = [*values[parameter.name], *value]
        else:
            continue
        used.add(at)
        total += affinity
    values = {**choices, **values}
    for parameter in listed:
        if parameter.name not in values and parameter.takes_text and not parameter.choices:
            named = parameters.beside_noun(parameter, words, nouns, VERBS | servers)
            if named is not None:
                values[parameter.name] = named
    return values, used, total


def _pairs(
    listed: Sequence[Parameter], step: Step, verb: str, nouns: frozenset[str]
) -> Iterator[tuple[int, Parameter, float]]:
    """Yield the literals with parameters that they suit, and how well, best first."""
    scored = [
        (-parameters.affinity(literal, each, verb, nouns), not each.is_required, at, place)
        for at, literal in enumerate(step.literals)
        for place, each in enumerate(listed)
    ]
    for negative, optional, at, place in sorted(scored):
        if -negative >= (_LITERAL_OPTIONAL if optional else _LITERAL_REQUIRED):
            yield at, listed[place], -negative


def _continues(step: Step, at: int, used: set[int]) -> bool:
    """Whether a literal is of the kind of one that is in use: ``a.txt`` and ``b.txt``."""
    return any(step.literals[other].kind == step.literals[at].kind for other in used)


def _owner_and_repository(
    listed: Sequence[Parameter], step: Step
) -> tuple[dict[str, Any], set[int]]:
    """Return the parts of ``acme/shop`` for a tool with an owner and a repository."""
    if {"owner", "repo"} <= {parameter.name for parameter in listed}:
        for at, literal in enumerate(step.literals):
            if literal.kind == "slug":
                owner, _, repository = str(literal.value).partition("/")
                return {"owner": owner, "repo": repository}, {at}
    return {}, set()


def _plain_text(step: Step) -> str:
    """Return the text of a step with commas for its literals."""
    parts, end = [], 0
    for literal in step.literals:
        parts += [step.text[end : literal.start], " , "]
        end = literal.end
    return "".join((*parts, step.text[end:]))


def _search_text(parameter: Parameter, step: Step) -> str | None:
    """Return the object of the step for a search tool; None for tools with a query language."""
    if not parameter.is_query or not parameter.takes_text:
        return None
    tool = parameter.tool
    if _QUERY_LANGUAGES.search(f"{tool.name} {tool.description} {parameter.description}"):
        return None
    words = [word.lower() for word in _WORDS.findall(step.text)]
    if not (step.has_subject or parameters.verb_stem(words) in parameters.SEARCHING):
        return None
    return step.subject


def _fan_out(
    filled: FilledArguments, spread: tuple[str, Source] | None, most: int
) -> Iterator[FilledArguments]:
    if spread is None:
        yield filled
        return
    name, source = spread
    for at in range(min(source.length or 0, max(1, most))):
        one = source.reference(f"{source.select}[{at}]")
        yield FilledArguments(
            {**filled.values, name: one},
            filled.missing,
            filled.unsure,
            filled.taken,
            filled.unused,
        )
