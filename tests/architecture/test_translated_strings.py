"""No words reach a page without passing the catalogue."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from tests.architecture.files import files_with, shown

#: Words that are the same in every language: names, formats, keys, units.
SAME = {
    "Holdpoint", "JSON", "YAML", "ms", "null", "CSV", "MCP", "J", "K", "X", "v", "server.tool",
    "https://hooks.example.com/holdpoint", 'true', "U",
}  # fmt: skip
#: Elements whose text is code, or data.
CODE = {"pre", "code", "script", "style", "kbd"}
SAID = ("title", "aria-label", "placeholder", "alt", "aria-description")
VOID = {"input", "img", "br", "hr", "meta", "link", "use", "rect", "path", "line", "circle"}
TRANSLATED = re.compile(
    r"\{%\s*blocktranslate\b.*?\{%\s*endblocktranslate\s*%\}|\{%\s*translate\b.*?%\}|\{#.*?#\}",
    re.DOTALL,
)
CODE_OF_TEMPLATES = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
#: Text in a filter or an include that is shown: `default:"…"`, `with label="…"`.
BARE_WORDS = re.compile(r"(?:\|\s*default(?:_if_none)?:|\b(?:label|title|word)=)[\"']([^\"']+)")
#: Defaults that are no words: names of modes, of types and of classes.
NAMES = {"form", "text", "quiet", "/review/"}
#: An example in JSON, and a template that is the inside of a tag.
EXAMPLES = {"inputs.publish", "inputs.max_count <= `20`", '{"repo": "/srv/project"}'}
NO_MARKUP = {"_described.html"}
LETTERS = re.compile(r"[^\W\d_]+(?:[.:/\w-]*[^\W\d_])?")


class Words(HTMLParser):
    """Collects what a person would read: text, and attributes that are shown or read aloud."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in SAID and value]
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not CODE & set(self.inside):
            self.found.append(data)


def unwrapped(text: str) -> Iterator[str]:
    """Words of a template that no catalogue would see."""
    text = TRANSLATED.sub("", text)
    for code in CODE_OF_TEMPLATES.findall(text):
        if not re.match(r"\{%\s*(?:extends|load|url|static|csrf)", code):
            yield from (
                word
                for word in BARE_WORDS.findall(code)
                if says_something(word) and word not in NAMES
            )
    words = Words()
    words.feed(CODE_OF_TEMPLATES.sub(" ", text))
    yield from (word.strip() for word in words.found if says_something(word))


def says_something(text: str) -> bool:
    """Whether `text` has a word that is not the same in every language."""
    return text not in EXAMPLES and any(word not in SAME for word in LETTERS.findall(text))


def test_every_template_text_is_marked_for_translation() -> None:
    templates = [
        path
        for path in files_with(".html")
        if "templates" in path.parts and path.name not in NO_MARKUP
    ]
    assert len(templates) > 50
    found = [
        f"{shown(path)}: {words!r}"
        for path in templates
        for words in unwrapped(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "markup",
    [
        "<p>Nothing waits</p>",
        '<input placeholder="Search">',
        "<button aria-label='Close'>✕</button>",
        '<b>{{ name|default:"nobody" }}</b>',
        '{% include "a.html" with label="Code" %}',
        "{% if a %}yes{% endif %}",
        "{% translate 'Yes' %} and no",
    ],
)
def test_untranslated_text_is_noticed(markup: str) -> None:
    assert len(list(unwrapped(markup))) == 1


@pytest.mark.parametrize(
    "markup",
    [
        "<p>{% translate 'Nothing waits' %} · {{ count }}</p>",
        "{% blocktranslate %}Run {{ n }}{% endblocktranslate %}",
        "<kbd>Esc</kbd> <code>python3 x.py</code> ← 3",
        '<a class="button small" href="{% url "reviews:runs" %}">→</a>',
        '<option value="x" {% if a == "b" %}selected{% endif %}>JSON</option>',
    ],
)
def test_text_that_needs_no_translation_passes(markup: str) -> None:
    assert list(unwrapped(markup)) == []
