"""Parse an intent in natural language into ordered steps and literal values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from graphrag import tokenizer
from graphrag.thesaurus import ACTIONS

MAX_STEPS = 12

_THEN = re.compile(
    r"(?:[;\n]|(?<=[a-z0-9])\.\s|,?\s*\b(?:and then|then|after that|afterwards|finally|next)\b,?)",
    re.IGNORECASE,
)
_AND = re.compile(r"(?:,\s*(?:and\b)?|\band\b|\bplus\b)\s*", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+", re.MULTILINE)
_URL = re.compile(r"https?://[^\s\"'<>]+")
_QUOTED = re.compile(r"\"([^\"\n]{1,500})\"|(?<!\w)'([^'\n]{1,500})'(?!\w)")
_DIRECTORY_NAMES = (".", "..")
_PATH = re.compile(r"(?<![\w/])(?:\.{0,2}/[\w.@/-]+|[\w-]+(?:/[\w.-]+)*\.[a-z]{1,5}\b)")
_NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?![\w.]|/)")
ABOUT = re.compile(r"\b(?:for|about|on|regarding|matching|called|named)\s+", re.IGNORECASE)
_HEAD = re.compile(r"\b(?:for|about|regarding)\s+", re.IGNORECASE)
_EXTENSION = re.compile(
    r"\b(csv|docx?|html?|ini|json|jsonl|log|md|pdf|py|toml|tsv|txt|xlsx?|xml|ya?ml)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Literals:
    """Literal values in the text of a step."""

    urls: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    extension: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One action. ``after_previous`` when the text says that it follows the previous step."""

    text: str
    after_previous: bool = False
    literals: Literals = field(default_factory=Literals)

    @property
    def query(self) -> str:
        """The search query for tools: the text without literal values."""
        plain = _QUOTED.sub(" ", _URL.sub(" url ", self.text))
        return _NUMBER.sub(" ", _PATH.sub(lambda path: _kind_of(path.group()), plain))

    @property
    def head(self) -> str:
        """The query without its object: ``search arXiv`` of ``search arXiv for birds``."""
        head = _HEAD.split(self.query, maxsplit=1)[0]
        return head if len(tokenizer.content_words(head)) > 1 else self.query


def _kind_of(path: str) -> str:
    extension = _EXTENSION.search(path)
    return f" {extension.group(1) if extension else ''} file "


def steps(intent: str) -> list[Step]:
    """Return the steps of an intent, at most 12.

    ``then``, semicolons, full stops and line breaks separate consecutive steps; ``and`` and commas
    separate steps only where a new action begins ("read the log and draft notes", not "date
    and time").
    """
    plain = _BULLET.sub("", intent.replace("\x00", " "))
    found: list[Step] = []
    for part in _outside_literals(plain, _THEN):
        for at, piece in enumerate(_actions(part)):
            if tokenizer.stems(piece):
                found.append(Step(piece, bool(found) and at == 0, literals(piece)))
    return found[:MAX_STEPS]


def _outside_literals(written: str, separator: re.Pattern[str]) -> list[str]:
    """Split at a separator that is not inside a URL or a quotation."""
    closed = [match.span() for pattern in (_URL, _QUOTED) for match in pattern.finditer(written)]
    parts, start = [], 0
    for match in separator.finditer(written):
        if not any(first <= match.start() < last for first, last in closed):
            parts.append(written[start : match.start()].strip())
            start = match.end()
    return [part for part in (*parts, written[start:].strip()) if part]


def _actions(part: str) -> Iterator[str]:
    """Split a clause into pieces that each begin with an action and have an object."""
    current = ""
    for piece in _outside_literals(part, _AND):
        if current and _starts_action(piece) and len(_content(current)) > 1:
            yield current
            current = piece
        else:
            current = f"{current} and {piece}" if current else piece
    if current:
        yield current


def _content(piece: str) -> list[str]:
    return [word for word in tokenizer.words(piece) if word not in tokenizer.STOP_WORDS]


def _starts_action(piece: str) -> bool:
    content = _content(piece)
    return bool(content) and tokenizer.stem(content[0]) in ACTION_STEMS


ACTION_STEMS = tokenizer.stem_set(ACTIONS)
"""Stems of words that begin a step."""


def literals(written: str) -> Literals:
    """Extract URLs, paths, quotations, integers and a file extension, in order of appearance."""
    urls = tuple(url.rstrip(".,;)") for url in _URL.findall(written))
    rest = _URL.sub(" ", written)
    quotations = [first or second for first, second in _QUOTED.findall(rest)]
    named = tuple(each for each in quotations if _PATH.fullmatch(each) or each in _DIRECTORY_NAMES)
    quoted = tuple(each for each in quotations if each not in named)
    extension = _EXTENSION.search(rest)
    return Literals(
        urls=urls,
        paths=(*named, *_PATH.findall(_QUOTED.sub(" ", rest))),
        quoted=quoted,
        numbers=tuple(int(number) for number in _NUMBER.findall(_QUOTED.sub(" ", rest))),
        extension=extension.group(1).lower() if extension else "",
    )
