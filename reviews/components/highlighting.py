"""Highlight untrusted code as lines of HTML with CSS classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from pygments.lexer import Lexer
from pygments.lexers.javascript import JavascriptLexer, TypeScriptLexer
from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES

from reviews.templatetags.desk import visible

#: Longer code is not highlighted, to bound the lexer's time.
_MAX_CHARACTERS: Final = 60_000
_MAX_LINE: Final = 2_000

_LEXERS: Final[dict[str, type[Lexer]]] = {
    "python": PythonLexer,
    "typescript": TypeScriptLexer,
    "javascript": JavascriptLexer,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number (1-based) and its text as escaped markup."""

    number: int
    markup: SafeString


def lines_of(code: str, language: str) -> list[Line]:
    """Return the lines of `code` with tokens in spans and invisible characters escaped.

    Long code and unknown languages have no spans.
    """
    # Split only at line ends of the sandbox, so that line numbers agree.
    plain = [visible(line) for line in code.replace("\r\n", "\n").split("\n")]
    if plain and not plain[-1]:
        plain.pop()
    rows = _coloured(plain, language) or [format_html("{}", line) for line in plain]
    return [Line(number, markup) for number, markup in enumerate(rows, start=1)]


def _coloured(plain: list[str], language: str) -> list[SafeString]:
    lexer = _LEXERS.get(language)
    size = sum(map(len, plain))
    if lexer is None or size > _MAX_CHARACTERS or max(map(len, plain), default=0) > _MAX_LINE:
        return []
    rows: list[list[tuple[str, str]]] = [[]]
    text = "\n".join(plain)
    for token, value in lexer(stripnl=False, ensurenl=False).get_tokens(text):
        first, *more = value.split("\n")
        rows[-1].append((_class_of(token), first))
        rows.extend([(_class_of(token), part)] for part in more)
    return [_row(parts) for parts in rows] if len(rows) == len(plain) else []


def _class_of(token: Any) -> str:
    kind = token
    while kind is not None and kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES.get(kind, "") if kind is not None else ""


def _row(parts: list[tuple[str, str]]) -> SafeString:
    kept = [(name, text) for name, text in parts if text]
    return format_html_join("", '<span class="t-{}">{}</span>', kept)
