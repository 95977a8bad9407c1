"""What a strict Content-Security-Policy and hostile text ask of every template."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.files import files_with, package_modules, shown

TAG = re.compile(r"<[a-zA-Z][^<>]*?>", re.DOTALL)
TEMPLATE_CODE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
FORBIDDEN_IN_TAG = {
    "an inline style attribute": re.compile(r"\sstyle\s*=", re.IGNORECASE),
    "an inline event handler": re.compile(r"\son[a-z]+\s*=", re.IGNORECASE),
    "an htmx handler that needs eval": re.compile(
        r"\shx-on[:\-\w]*\s*=|\sdata-hx-on", re.IGNORECASE
    ),
    "a javascript: address": re.compile(r"=\s*[\"']?\s*javascript:", re.IGNORECASE),
}
FORBIDDEN_ANYWHERE = {
    "an inline script": re.compile(r"<script(?![^>]*\bsrc\s*=)[^>]*>", re.IGNORECASE),
    "an inline style element": re.compile(r"<style\b", re.IGNORECASE),
    "the safe filter": re.compile(r"\|\s*(safe|safeseq)\b"),
    "autoescape switched off": re.compile(r"\{%\s*autoescape\s+off"),
}
TRUSTED_MARKUP = {"mark_safe", "SafeString"}


def complaints(text: str) -> Iterator[str]:
    for what, pattern in FORBIDDEN_ANYWHERE.items():
        for match in pattern.finditer(text):
            yield f"line {line_of(text, match.start())}: {what}"
    markup = TEMPLATE_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for tag in TAG.finditer(markup):
        for what, pattern in FORBIDDEN_IN_TAG.items():
            if pattern.search(tag[0]):
                yield f"line {line_of(text, tag.start())}: {what}"


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def test_templates_carry_nothing_inline_and_trust_no_text() -> None:
    templates = [path for path in files_with(".html") if "templates" in path.parts]
    assert templates
    found = [f"{shown(path)} {entry}" for path in templates for entry in complaints(read(path))]
    assert found == []


def test_python_marks_no_text_as_safe() -> None:
    """Markup is built with `format_html`, which escapes; Markdown has a renderer of its own."""
    found = [
        f"{shown(path)}: {word}"
        for path in package_modules()
        if shown(path) != "reviews/components/markdown.py"
        for word in TRUSTED_MARKUP
        if re.search(rf"\b{word}\(", read(path))
    ]
    assert found == []


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "markup",
    [
        "<script>go()</script>",
        "<p style='color:red'>",
        "<button\n  onclick='go()'>",
        "<a href='javascript:go()'>",
        "<div hx-on:click='go()'>",
        "{{ text|safe }}",
        "{% autoescape off %}",
        "<style>p {}</style>",
    ],
)
def test_each_forbidden_thing_is_noticed(markup: str) -> None:
    assert len(list(complaints(markup))) == 1


@pytest.mark.parametrize(
    "markup",
    [
        "<script src='{% static 'a.js' %}' defer></script>",
        "<p class='{% if a > b %}on{% endif %}'>",
        "<section data-reason='once = done'>",
        "{{ state|json_script:'state' }}",
    ],
)
def test_good_markup_passes(markup: str) -> None:
    assert list(complaints(markup)) == []
