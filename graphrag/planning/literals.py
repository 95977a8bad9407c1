"""Find typed values in the text of a step: URLs, addresses, paths, dates, numbers, names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from graphrag import tokenizer

Kind = OneOf[
    "url",
    "email",
    "quoted",
    "glob",
    "path",
    "datetime",
    "date",
    "time",
    "duration",
    "relative",
    "formula",
    "key",
    "slug",
    "mark",
    "number",
    "name",
]

#: Literals of one text that are compared with parameters.
MAX_LITERALS = 50
_QUOTED = r"\"([^\"\n]{1,500})\"|“([^”\n]{1,500})”|`([^`\n]{1,500})`|(?<!\w)'([^'\n]{1,500})'(?!\w)"
_HALF_OF_DAY = r"(?:\s?[ap]\.?m\b\.?)"
_AMOUNTS = "an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_UNITS = "seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?"
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
_DAYS = rf"(?:{_DAYS})day"
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("url", re.compile(r"\bhttps?://[^\s\"'<>`]+")),
    ("quoted", re.compile(_QUOTED)),
    ("email", re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")),
    ("glob", re.compile(r"(?<!\S)[\w./-]*\*[\w./*-]*")),
    (
        "datetime",
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)"),
    ),
    ("date", re.compile(r"\b\d{4}-\d\d-\d\d\b")),
    (
        "time",
        re.compile(rf"\b(?:\d{{1,2}}:\d\d(?::\d\d)?{_HALF_OF_DAY}?|\d{{1,2}}{_HALF_OF_DAY})\b"),
    ),
    (
        "duration",
        re.compile(
            rf"\b(?:(?:\d+(?:\.\d+)?\s?(?:ms|s|m|h|d|w)|(?:\d+(?:\.\d+)?|{_AMOUNTS})[\s-]"
            rf"(?:{_UNITS}))\b(?:(?:\s+and)?\s+(?=\d))?)+|\bhalf\s+an?\s+(?:hour|day)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "relative",
        re.compile(
            rf"\b(?:(?:the\s+day\s+after\s+)?tomorrow|(?:the\s+day\s+before\s+)?yesterday|today"
            rf"|tonight|(?:next|last|this|coming|past)\s+(?:{_DAYS}|week(?:end)?|month|quarter|year"
            rf"|morning|afternoon|evening|night)|(?:on|by|until|since)\s+(?:{_DAYS}))\b",
            re.IGNORECASE,
        ),
    ),
    ("formula", re.compile(r"(?<!\S)=\w[^\s]*(?:\([^)]*\))?[^\s,;.]*")),
    (
        "path",
        re.compile(r"(?<![\w/])(?:~|\.{0,2})/[\w.@/-]*\w/?|[\w-]+(?:/[\w.-]+)*\.[a-z]\w{0,4}\b"),
    ),
    ("key", re.compile(r"\b[A-Z][A-Z0-9]+-\d+\b")),
    ("slug", re.compile(r"(?<![\w/])[A-Za-z][\w.-]*/[\w.-]*\w(?![\w/])")),
    ("mark", re.compile(r"(?<!\w)[#@][A-Za-z][\w.-]*\w")),
    ("number", re.compile(r"(?<![\w.:-])\d{1,9}(?![\w:]|\.\d|-\w)")),
    (
        "name",
        re.compile(
            r"(?<!\w)(?:[A-Za-z]*\d[\w.]*|\w+)(?:[-_:.]\w+)+|\bv?\d+(?:\.\d+)+\b"
            # An identifier: letters and digits in one word.
            r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{6,}\b"
        ),
    ),
)
_PROPER = re.compile(
    r"\b[A-Z][\w'-]*(?:\s+(?:[A-Z][\w'-]*|of|the|and(?=\s+[A-Z])))*(?<!\sof)(?<!\sthe)"
)
_ENDING = re.compile(r"[.,;:!?)\]]+\Z")
_IS_PATH = re.compile(r"(?:~|\.{0,2})/\S*|[\w-]+(?:/[\w.-]+)*\.[a-z]\w{0,4}|\.{1,2}")
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_NUMBER_WORDS = {
    word: at
    for at, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
    )
}
_CLAUSE_END = re.compile(r"[,;\"'`“]")
_NEAR = 4


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in the text. ``before`` and ``after`` are the words around it, nearest first."""

    kind: Kind
    value: str | int
    start: int
    end: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def find(written: str, *, ignored: frozenset[str] = frozenset()) -> tuple[Literal, ...]:
    """Return the first MAX_LITERALS literals of a text, in their order.

    A part of the text is in one literal at most.
    ``ignored`` are lower-case words that count as no name, such as the names of servers.
    """
    found: list[Literal] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(written):
            start, end = match.span()
            if kind in ("url", "path"):
                end -= len(match.group()) - len(_ENDING.sub("", match.group()))
            if not _overlaps(found, start, end):
                groups = [each for each in match.groups() if each]
                found.append(
                    _literal(kind, groups[0] if groups else written[start:end], start, end)
                )
    found += [each for each in _number_words(written) if not _overlaps(found, each.start, each.end)]
    for each in _proper_names(written, ignored):
        if not _overlaps(found, each.start, each.end):
            found.append(each)
    found.sort(key=lambda each: each.start)
    starts = [*(each.start for each in found[1:]), len(written)]
    found = found[:MAX_LITERALS]
    ends = [0, *(each.end for each in found)]
    return tuple(
        replace(
            each,
            before=tuple(reversed(_words(written[end : each.start])[-_NEAR:])),
            after=tuple(
                _words(_CLAUSE_END.split(written[each.end : start], maxsplit=1)[0])[:_NEAR]
            ),
        )
        for each, end, start in zip(found, ends, starts, strict=False)
    )


def _words(written: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(written)]


def _overlaps(found: list[Literal], start: int, end: int) -> bool:
    return any(each.start < end and start < each.end for each in found)


def _literal(kind: Kind, text: str, start: int, end: int) -> Literal:
    if kind == "quoted" and _IS_PATH.fullmatch(text):
        kind = "path"
    elif kind == "quoted":
        kind = next(
            (
                each
                for each, pattern in _PATTERNS
                if each in ("url", "email", "datetime", "date", "key") and pattern.fullmatch(text)
            ),
            kind,
        )
    elif kind == "time":
        text = _on_24_hours(text)
    return Literal(kind, int(text) if kind == "number" else text, start, end)


def _on_24_hours(text: str) -> str:
    """Return a time of day in 24 hours: "3pm" -> "15:00"."""
    half = "".join(each for each in text.lower() if each.isalpha())
    if not half:
        return text
    hour, _, rest = text.rstrip(". apmAPM").partition(":")
    return f"{int(hour) % 12 + (12 if half == 'pm' else 0):02}:{rest or '00'}"


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(half\s+an?|\d+(?:\.\d+)?|[a-z]+)[\s-]*([a-z]+)", re.IGNORECASE)


def seconds(duration: str) -> float | None:
    """Return the seconds of a duration in the text; None for months, years and milliseconds."""
    total = 0.0
    for amount, unit in _PART.findall(re.sub(r"\band\b", " ", duration.lower())):
        size = _SECONDS.get(unit[0]) if not unit.startswith(("ms", "mo")) else None
        if size is None:
            return None
        total += _amount(amount) * size
    return total


def _amount(text: str) -> float:
    if text.startswith("half"):
        return 0.5
    if text in ("a", "an"):
        return 1.0
    return float(_NUMBER_WORDS[text]) if text in _NUMBER_WORDS else float(text)


def _number_words(written: str) -> Iterator[Literal]:
    for match in _WORD.finditer(written):
        number = _NUMBER_WORDS.get(match.group().lower(), 0)
        if number > 1:
            yield Literal("number", number, *match.span())


def _proper_names(written: str, ignored: frozenset[str]) -> Iterator[Literal]:
    """Yield capitalized names; the first word of a sentence is capitalized in any case."""
    for match in _PROPER.finditer(written):
        start, end = match.span()
        if not written[:start].strip() or written[:start].rstrip()[-1] in ".!?:":
            continue
        words = [word.lower() for word in match.group().split()]
        if not all(word in ignored or word in tokenizer.STOP_WORDS for word in words):
            yield Literal("name", match.group(), start, end)
