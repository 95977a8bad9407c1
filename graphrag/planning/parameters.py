"""A tool's parameters, and how well a literal of the text suits one of them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphrag import tokenizer
from graphrag.catalogue.tool_record import ToolRecord, own_name
from graphrag.planning import literals, schemas
from graphrag.planning.literals import Literal

#: Parameters of a tool that are filled, the required ones first.
MAX_PARAMETERS = 100
#: Choices of a parameter that are compared with the text.
MAX_CHOICES = 200
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_EXAMPLES = re.compile(
    r"(?:e\.?g\.?|for example|such as|one of|options?)[:,]?\s*([^).;]+)"
    r"|\(([\w-]+(?:,\s*[\w-]+)+)\)",
    re.IGNORECASE,
)


def name_words(name: str) -> list[str]:
    """Return the words of a name: ``baseId`` -> ``base``, ``id``."""
    return [word.lower() for word in _WORD.findall(name)]


def name_stems(name: str) -> frozenset[str]:
    """Return the stems of a name."""
    return frozenset(map(tokenizer.stem, name_words(name)))


_stems = tokenizer.stem_set
#: Words of names that say nothing about which thing is meant.
GENERIC = _stems(
    "id ids key keys name names number no uuid guid slug ts timestamp identifier value list type"
    " path paths file files filename filepath filenames filepaths url urls uri link"
)
_LOCATORS = _stems("id ids key keys number ts timestamp")
_CONTENT = _stems(
    "text content contents body message markdown comment data html note insight input"
    " lines document raw payload paragraph observations"
)
_QUERY = frozenset(
    {
        "query",
        "q",
        "search",
        "searchquery",
        "question",
        "topic",
        "term",
        "keyword",
        "keywords",
        "searchterm",
        "phrase",
    }
)
_TITLE = _stems("title name summary subject")
_NEW = _stems("new")
_COUNT = _stems("count limit max maximum top results size tail head last per page n num")
_PATH = _stems("path file filename filepath filepaths paths directory dir folder dirpath")
_REPOSITORY = _stems("repo repository")
_URL = _stems("url urls uri link href")
_EMAIL = _stems("email mail attendee attendees recipient recipients cc bcc invitee")
_TIME = _stems("date time start end since until min max from to due after before day datetime")
_TYPED = frozenset({"url", "email", "datetime", "date", "time", "duration", "relative", "path"})
_DURATION = _stems("duration timeout interval delay estimate ttl spent second minute hour wait")
_UNIT_SECONDS = {"second": 1, "sec": 1, "minut": 60, "min": 60, "hour": 3600, "day": 86_400}
#: In descriptions of parameters that take "tomorrow" as it is.
_TAKES_RELATIVE = re.compile(r"\b(?:today|tomorrow|yesterday|natural language|relative)\b", re.I)
_PERSON = _stems("user assignee person username login member handle author owner")
#: Kind of a literal, or its first character -> stems of the names of its parameters.
_KIND_NAMES: Mapping[str, frozenset[str]] = {
    "key": _stems("issue key ticket"),
    "glob": _stems("pattern glob filter mask"),
    "formula": _stems("formula expression"),
    "#": _stems("channel"),
    "@": _PERSON,
}
_NAMING = _stems("name id key slug")
_FROM = _stems("source src from start begin old base min since origin find")
_TO = _stems("target destination dest to end new max until output")
_WITH = _stems("replace replacement new with")
_CUES: Mapping[str, frozenset[str]] = {
    "from": _FROM,
    "to": _TO,
    "into": _TO,
    "as": _TO | _stems("type kind role state status"),
    "until": _TO,
    "with": _WITH,
    "by": _WITH,
}
_COMPOUND = 4
_CALLED = frozenset("called named titled entitled name title".split())  # noqa: SIM905
_SAYING = frozenset("saying says stating reading text message comment reply note".split())  # noqa: SIM905
_ABOUT = frozenset("for about on regarding matching containing mentioning of".split())  # noqa: SIM905
_FEW = frozenset("last first latest top newest most".split())  # noqa: SIM905
SEARCHING = _stems("search find look query locate google scan")
_SAYING_VERBS = _stems("comment post send reply say write append tell note message answer respond")
_MAKING = _stems("create make add open rename new start build book schedule")
_ADJECTIVES = frozenset(
    """
    new first last next latest same whole full other old current existing free own entire second
    third open closed all every each newest right big empty few several some
    """.split()  # noqa: SIM905
)


def is_query_name(name: str) -> bool:
    """Whether a parameter of this name takes a search query."""
    return name.lower().replace("_", "") in _QUERY


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool."""

    name: str
    schema: Any
    is_required: bool
    tool: ToolRecord

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that it takes; empty when it is not restricted."""
        return schemas.types_of(self.schema)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of its name."""
        return name_stems(self.name)

    @cached_property
    def entity(self) -> frozenset[str]:
        """Stems of the thing it denotes: ``issue`` of ``issue_number``; empty for a bare ``id``."""
        return self.stems - GENERIC

    @cached_property
    def description(self) -> str:
        """Its description."""
        found = self.schema.get("description", "") if isinstance(self.schema, Mapping) else ""
        return found if isinstance(found, str) else ""

    @cached_property
    def described_stems(self) -> frozenset[str]:
        """Stems of its description."""
        return frozenset(tokenizer.stems(self.description)) if self.description else frozenset()

    @cached_property
    def format(self) -> str:
        """The format of its schema."""
        found = self.schema.get("format", "") if isinstance(self.schema, Mapping) else ""
        return found if isinstance(found, str) else ""

    @cached_property
    def tool_stems(self) -> frozenset[str]:
        """Stems of the tool's own name."""
        return name_stems(own_name(self.tool))

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The strings that its schema allows, if it lists them; MAX_CHOICES at most."""
        found = self.schema.get("enum") if isinstance(self.schema, Mapping) else None
        listed = found[:MAX_CHOICES] if isinstance(found, list) else []
        return tuple(each for each in listed if isinstance(each, str))

    @cached_property
    def examples(self) -> frozenset[str]:
        """Words that its description lists as examples."""
        found = _EXAMPLES.search(self.description)
        listed = (found.group(1) or found.group(2)) if found else ""
        return frozenset(re.findall(r"[a-z][a-z-]+", listed))

    @property
    def has_default(self) -> bool:
        """Whether the tool works without it."""
        return isinstance(self.schema, Mapping) and "default" in self.schema

    @property
    def takes_text(self) -> bool:
        """Whether a string is valid."""
        if self.types or not isinstance(self.schema, Mapping):
            return "string" in self.types
        return self.schema.keys().isdisjoint(("$ref", "anyOf", "oneOf", "allOf", "properties"))

    @property
    def takes_scalars(self) -> bool:
        """Whether it takes text or a number, or a list of them: no object that a person writes."""
        item = schemas.item_schema(self.schema)
        if item is not None:
            return bool(schemas.types_of(item) & {"string", "integer", "number"})
        return self.takes_text or bool(self.types & {"integer", "number"})

    @property
    def is_content(self) -> bool:
        """Whether it is a free text: ``body``, ``message``."""
        return bool(self.stems & _CONTENT) and self.takes_text and not self.is_locator

    @property
    def is_query(self) -> bool:
        """Whether it is a search query."""
        return is_query_name(self.name) and self.takes_text

    @property
    def is_title(self) -> bool:
        """Whether it names a thing: ``title``, ``summary``."""
        others = self.stems - _TITLE - GENERIC - _NEW
        return bool(self.stems & _TITLE) and not others and not self.is_path

    @property
    def is_path(self) -> bool:
        """Whether it is a path of a file or folder."""
        return bool(self.stems & _PATH) and not self.is_url

    @property
    def is_url(self) -> bool:
        """Whether it is a URL."""
        return self.format in ("uri", "url") or bool(self.stems & _URL)

    @property
    def is_email(self) -> bool:
        """Whether it is an e-mail address."""
        return self.format == "email" or bool(self.stems & _EMAIL)

    @property
    def is_time(self) -> bool:
        """Whether it is a date or a time."""
        return self.format in ("date", "date-time", "time") or bool(self.stems & _TIME)

    @property
    def is_locator(self) -> bool:
        """Whether it says which thing is meant, not what it contains."""
        return self.is_path or self.is_url or bool(self.stems & _LOCATORS)

    @property
    def is_bare(self) -> bool:
        """Whether its name does not say which kind of thing it identifies."""
        return not self.entity

    def accepts(self, value: str | int) -> Any:
        """Return a literal as this parameter takes it, or None."""
        item = schemas.item_schema(self.schema)
        if item is not None and not self.types & {"string", "integer", "number"}:
            inner = Parameter(self.name, item, self.is_required, self.tool)
            single = inner.accepts(value)
            if single is None and "object" in inner.types:
                single = _as_object(item, value)
            return None if single is None else [single]
        if self.choices:
            return next((each for each in self.choices if each.lower() == str(value).lower()), None)
        if isinstance(value, int):
            if not self.types or self.types & {"integer", "number"}:
                return value
            return str(value) if self.types == {"string"} and not self.is_content else None
        return value if self.takes_text else None


def _as_object(item: Any, value: str | int) -> dict[str, Any] | None:
    """Return an item with one property for an address: ``attendees: [{"email": ...}]``."""
    if "email" in schemas.properties_of(item) and isinstance(value, str) and "@" in value:
        return {"email": value}
    return None


def parameters_of(record: ToolRecord) -> list[Parameter]:
    """Return the parameters of a tool, the required ones first; MAX_PARAMETERS at most."""
    required = frozenset(record.required)
    names = sorted(record.parameters, key=lambda name: name not in required)
    return [
        Parameter(name, record.parameters[name], name in required, record)
        for name in names[:MAX_PARAMETERS]
    ]


def value_for(parameter: Parameter, value: Literal) -> Any:
    """Return a literal as the parameter takes it, or None.

    A duration becomes a number in the unit that the parameter names: ``timeout_seconds``.
    """
    if value.kind == "duration" and not parameter.takes_text:
        unit = next((_UNIT_SECONDS[stem] for stem in parameter.stems if stem in _UNIT_SECONDS), 0)
        total = literals.seconds(str(value.value))
        if not unit or total is None or (number := total / unit) != int(number):
            return None
        return parameter.accepts(int(number))
    return parameter.accepts(value.value)


def affinity(
    value: Literal, parameter: Parameter, verb: str, nouns: frozenset[str] = frozenset()
) -> float:
    """Return how well a literal suits a parameter, 0 to 1, by kind, type and the words around it.

    ``verb`` is the stem of the first word of the step; ``nouns`` are stems of the choices that it
    makes for other parameters: ``deployment``.
    """
    if value_for(parameter, value) is None:
        return 0.0
    if parameter.choices:
        return 1.0
    if _is_word_of_tool(value, parameter):
        return 0.0
    label = _label(value, verb)
    by_words = _by_words(value, parameter, label, verb)
    if label & nouns and parameter.is_bare and parameter.stems & _NAMING:
        by_words = max(by_words, 0.9)
    if value.kind in _TYPED:
        return _of_typed(value, parameter, by_words)
    if value.kind == "number":
        return _of_number(value, parameter, by_words)
    if parameter.is_url or parameter.is_email or parameter.is_time:
        return by_words if label & parameter.stems else 0.0
    kinds = _KIND_NAMES.get(value.kind if value.kind != "mark" else str(value.value)[0])
    if kinds is not None:
        return 0.95 if parameter.stems & kinds else min(by_words, 0.7)
    return by_words


def _of_typed(value: Literal, parameter: Parameter, by_words: float) -> float:
    """Return the affinity of a literal whose form says what it is."""
    fits, sure = {
        "url": (parameter.is_url, 1.0),
        "email": (parameter.is_email or "email" in parameter.description.lower(), 1.0),
        "datetime": (parameter.is_time, 0.8),
        "date": (parameter.is_time, 0.8),
        "time": (parameter.is_time, 0.8),
        "duration": (bool(parameter.stems & _DURATION), 0.85),
        "relative": (
            parameter.is_time and bool(_TAKES_RELATIVE.search(parameter.description)),
            0.8,
        ),
        "path": (parameter.is_path or _is_repository(value, parameter), 0.85),
    }[value.kind]
    if fits:
        return max(sure, by_words)
    if value.kind == "relative":
        return 0.0  # which date it is depends on the day
    names_end = parameter.stems & (_FROM | _TO) and not parameter.stems & _LOCATORS
    if value.kind == "path" and parameter.is_required and names_end:
        return max(0.8, by_words)
    if value.kind == "email" and parameter.stems & _PERSON:
        return 0.75
    return min(by_words, 0.55 if value.kind == "path" else 0.4)


def _is_repository(value: Literal, parameter: Parameter) -> bool:
    is_hosted = "owner" in parameter.tool.parameters
    is_local = not is_hosted and str(value.value)[0] in "/~."
    return bool(parameter.stems & _REPOSITORY) and is_local


def _is_word_of_tool(value: Literal, parameter: Parameter) -> bool:
    """Whether a capitalized word is no value but part of what the tool is about: ``Jira``."""
    if value.kind != "name":
        return False
    about = parameter.tool_stems | name_stems(parameter.tool.server)
    words = frozenset(map(tokenizer.stem, name_words(str(value.value).lower())))
    return bool(words) and words <= about


def verb_stem(words: list[str]) -> str:
    """Return the stem of the first word that is no stop word: usually the verb of the step."""
    return next((tokenizer.stem(word) for word in words if word not in tokenizer.STOP_WORDS), "")


def _label(value: Literal, verb: str) -> frozenset[str]:
    """Return stems of the noun that names a literal: ``branch`` of ``branch called 'x'``."""
    words: list[str] = []
    for word in value.before:
        if word in _CALLED or (not words and word in ("the", "a", "an", "number", "no")):
            continue
        if word in tokenizer.STOP_WORDS:
            break
        words.append(word)
    if value.after and value.after[0] not in tokenizer.STOP_WORDS:
        words.append(value.after[0])
    return frozenset(map(tokenizer.stem, words[:3])) - {verb}


def _by_words(value: Literal, parameter: Parameter, label: frozenset[str], verb: str) -> float:
    """Return how well the words around a literal suit the parameter's name and description."""
    entity = parameter.entity
    scores = [0.3]
    if verb in _MAKING and label & parameter.tool_stems and parameter.stems & _stems("id"):
        return 0.3  # what is created has no identifier yet
    named = label & entity or _compounds(label, entity)
    if named and not (set(value.before[:3]) & _CALLED and not _names(parameter, label)):
        scores.append(0.9 + 0.05 * len(named) / len(entity))
    if label & parameter.stems and not label & entity:
        scores.append(0.7)
    cue = next((word for word in value.before[:2] if word in _CUES), "")
    if cue and _CUES[cue] & parameter.stems:
        scores.append(0.88)
    if parameter.name in value.before[:2] and parameter.name in tokenizer.STOP_WORDS:
        scores.append(0.9)
    if value.kind in ("quoted", "name", "slug", "mark", "key", "path"):
        scores += _of_text(value, parameter, label, verb)
    # A capitalized word is less certain to be a value than a quotation.
    is_plain = value.kind == "name" and str(value.value).replace(" ", "").isalpha()
    return max(scores) - (0.06 if is_plain else 0.0)


def _compounds(label: frozenset[str], entity: frozenset[str]) -> frozenset[str]:
    """Return the words of the parameter that end a word of the text: ``sheet`` of "worksheet"."""
    return frozenset(
        word
        for word in entity
        if len(word) >= _COMPOUND and any(each.endswith(word) for each in label)
    )


def _names(parameter: Parameter, label: frozenset[str]) -> bool:
    """Whether a parameter can take the name of the thing: a title, or just the thing's noun."""
    return bool(parameter.is_title or parameter.stems & _NAMING or parameter.entity <= label)


def _of_text(value: Literal, parameter: Parameter, label: frozenset[str], verb: str) -> list[float]:
    """Return the affinities of a name or quotation, one for each rule that holds."""
    near = set(value.before[:3])
    quoted = value.kind == "quoted"
    is_sole = quoted or (value.kind == "slug" and "owner" not in parameter.tool.parameters)
    identifies = parameter.is_bare and bool(parameter.stems & _NAMING)
    rules = (
        (near & _SAYING and parameter.is_content, 0.92),
        (near & _CALLED and parameter.is_title, 0.87),
        (identifies and label & parameter.tool_stems, 0.86),
        (parameter.is_query and (near & _ABOUT or verb in SEARCHING), 0.85),
        (quoted and parameter.is_title and verb in _MAKING and label & parameter.tool_stems, 0.84),
        (quoted and parameter.is_content and verb in _SAYING_VERBS, 0.82),
        (quoted and parameter.is_content and label & parameter.tool_stems, 0.83),
        (identifies and label & parameter.described_stems, 0.75),
        (label & parameter.described_stems and not parameter.is_content, 0.6),
        (is_sole and parameter.is_required and _takes_any_text(parameter), 0.5),
    )
    return [score for holds, score in rules if holds]


def _takes_any_text(parameter: Parameter) -> bool:
    return parameter.types == {"string"} and not parameter.is_path


def _of_number(value: Literal, parameter: Parameter, by_words: float) -> float:
    if parameter.stems & _COUNT and set(value.before[:3]) & _FEW:
        return 0.92
    if "string" in parameter.types and not parameter.types & {"integer", "number"}:
        return by_words if by_words >= 0.7 else 0.0
    if by_words >= 0.7:
        return by_words
    return 0.5 if parameter.is_required else 0.3


def chosen(parameter: Parameter, words: Sequence[str]) -> str | None:
    """Return the value that a word of the step chooses, or None.

    The schema lists the values, or the description of a type, format or state names examples:
    "(e.g. pods, services)".
    """
    stems = {tokenizer.stem(word) for word in words}
    if parameter.choices:
        named = [each for each in parameter.choices if _is_named(each, stems)]
        return named[0] if len(named) == 1 else None
    if parameter.stems & _SORTS and parameter.takes_text and not parameter.is_content:
        examples = {tokenizer.stem(each) for each in parameter.examples}
        return next((word for word in words if tokenizer.stem(word) in examples), None)
    return None


def _is_named(choice: str, stems: Collection[str]) -> bool:
    return (name_stems(choice) or frozenset({choice.lower()})).issubset(stems) or (
        tokenizer.stem(choice.lower()) in stems
    )


def beside_noun(
    parameter: Parameter, words: Sequence[str], nouns: frozenset[str], ignored: frozenset[str]
) -> str | None:
    """Return the plain word beside the noun of a parameter: ``shop`` of ``the namespace shop``.

    ``nouns`` are stems of the choices for other parameters: ``web`` of ``the deployment web`` is
    the ``name``. ``ignored`` are words that are no names: verbs and servers.
    """
    is_name = parameter.is_bare and bool(parameter.stems & _NAMING)
    ignored_stems = frozenset(map(tokenizer.stem, ignored))
    if parameter.is_content or parameter.is_query:
        return None
    own = nouns | parameter.tool_stems if is_name else parameter.entity
    for at, word in enumerate(words):
        stem = tokenizer.stem(word.lower())
        if stem not in own or word.lower() in tokenizer.STOP_WORDS:
            continue
        # A verb is a noun after an article: "add the label urgent".
        if is_name and stem in ignored_stems and not (at and words[at - 1].lower() in _ARTICLES):
            continue
        following = [each.lower() for each in words[at + 1 : at + 3]]
        ends = len(following) == 1 or (
            len(following) > 1 and (following[1] == "," or following[1] in tokenizer.STOP_WORDS)
        )
        if ends and _is_name(following[0], parameter, nouns, ignored):
            return words[at + 1]
        before = [each.lower() for each in words[max(0, at - 2) : at]]
        follows_article = len(before) == 2 and before[0] in _ARTICLES and not is_name
        if follows_article and _is_name(before[1], parameter, nouns, ignored):
            return words[at - 1]
    return None


#: Stems of names of parameters whose value is one of a few.
_SORTS = _stems("type kind resource format mode period status state category operation")
_ARTICLES = frozenset({"the", "a", "an", "in", "on", "our", "my"})


def _is_name(
    word: str, parameter: Parameter, nouns: frozenset[str], ignored: frozenset[str]
) -> bool:
    stem = tokenizer.stem(word)
    return (
        word not in tokenizer.STOP_WORDS
        and word not in _ADJECTIVES
        and word not in _CALLED
        and word not in ignored
        and word != ","
        and stem not in nouns
        and stem not in parameter.tool_stems
        and stem not in parameter.stems
    )
