"""Markdown of agents as HTML that is safe to show.

Raw HTML is shown as text, images are not loaded, and a link shows its address.  Reference
definitions stay visible, because rendering would hide their text from the reviewer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

#: Longer text is shown as it is.
MAX_CHARACTERS: Final = 100_000
#: Headings of a payload stand below the headings of the page.
_HEADINGS_BELOW = 3
_SCHEMES: Final = ("http", "https", "mailto")
#: Keys that name their format.
_KEYS: Final = frozenset({"markdown", "md"})
_OPENS_WITH_HEADING = re.compile(r"\s*#{1,3} \S[^\n]*\n\s*\n")
_FILE = re.compile(r"\.(md|markdown)$", re.IGNORECASE)


class _SafeMarkdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return urlsplit(url).scheme.lower() in _SCHEMES


def _open_link(_renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    tokens[index].attrSet("target", "_blank")
    return str(_renderer.renderToken(tokens, index, options, env))


_MARKDOWN: Final = (
    _SafeMarkdown("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["image", "reference"])
)
_MARKDOWN.add_render_rule("link_open", _open_link)


def render_markdown(text: str) -> SafeString:
    """Return the HTML of Markdown text; everything in it is escaped or made here."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + _HEADINGS_BELOW)}"
        if token.children:
            token.children = _with_addresses(token.children)
    html = str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))
    return mark_safe(html)  # noqa: S308 - markdown-it escapes text, and html is off


def _with_addresses(tokens: Sequence[Token]) -> list[Token]:
    """Put the address of a link after its text, unless the text is the address."""
    shown: list[Token] = []
    address, words = "", ""
    for token in tokens:
        if token.type == "link_open":
            address, words = str(token.attrGet("href") or ""), ""
            token.attrs.pop("title", None)
        elif address and token.type != "link_close":
            words += token.content
        shown.append(token)
        if token.type == "link_close" and words != address.removeprefix("mailto:"):
            shown.append(Token("text", "", 0, content=f" ({address})"))
        if token.type == "link_close":
            address = ""
    return shown


def is_markdown(text: str, *, key: str = "", schema: Any = None, file: str = "") -> bool:
    """Return whether a text is Markdown, by its schema, its key, its file or its first lines."""
    if len(text) > MAX_CHARACTERS or "\n" not in text.strip():
        return False
    rules = schema if isinstance(schema, dict) else {}
    declared = rules.get("contentMediaType") == "text/markdown" or rules.get("format") == "markdown"
    named = key.lower() in _KEYS or bool(_FILE.search(file))
    return declared or named or _OPENS_WITH_HEADING.match(text) is not None
