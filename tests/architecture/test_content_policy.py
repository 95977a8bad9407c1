"""Templates and scripts keep to the content policy: nothing inline, nothing evaluated."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.template.loader import get_template

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
STATIC = ROOT / "reviews" / "static" / "reviews"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))
STYLES = sorted((STATIC / "css").glob("*.css"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_every_template_compiles(path: Path) -> None:
    get_template(str(path.relative_to(ROOT / "templates")))


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_a_template_has_nothing_inline(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"\sstyle=|<style", text)
    assert not re.search(r"\son[a-z]+=|hx-on|javascript:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert "|safe" not in text
    assert "autoescape off" not in text


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_evaluates_nothing_and_writes_no_markup(path: Path) -> None:
    text = path.read_text()

    assert not re.search(r"\beval\(|new Function|\.outerHTML\s*=|\.innerHTML\s*=", text)
    assert not re.search(r"insertAdjacentHTML|document\.write", text)


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_imports_files_that_exist(path: Path) -> None:
    for name in re.findall(r"(?:from|import\()\s*\"\./([\w.]+)\"", path.read_text()):
        assert (path.parent / name).exists(), name


def test_every_colour_and_size_used_is_defined() -> None:
    css = "".join(path.read_text() for path in STYLES)
    defined = set(re.findall(r"(--[\w-]+)\s*:", css))

    assert set(re.findall(r"var\((--[\w-]+)", css)) <= defined


def test_htmx_may_not_evaluate_nor_remember_pages() -> None:
    head = (ROOT / "templates" / "_head.html").read_text()
    config = json.loads(re.search(r"content='({.*?})'", head, re.DOTALL)[1])

    assert config["allowEval"] is False
    assert config["allowScriptTags"] is False
    assert config["includeIndicatorStyles"] is False
    assert config["selfRequestsOnly"] is True
    assert config["historyCacheSize"] == 0
