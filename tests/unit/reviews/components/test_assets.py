"""The stylesheet of all pages, and the modules that pages preload."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import RequestFactory

from reviews.components import assets
from reviews.templatetags import desk

ROOT = Path(__file__).parents[4]
STATIC = ROOT / "reviews" / "static" / "reviews"


def test_every_stylesheet_is_in_use() -> None:
    templates = "".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    for path in (STATIC / "css").glob("*.css"):
        named = f"reviews/css/{path.name}" in templates
        assert (path.stem in assets.STYLES) or named, path.name
        assert path.read_text() in assets.stylesheet().text or path.stem not in assets.STYLES


def test_a_stylesheet_is_kept_under_its_own_digest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    request = RequestFactory().get("/")
    digest = assets.stylesheet().digest
    assert "immutable" in assets.stylesheet_view(request, digest)["Cache-Control"]
    assert assets.stylesheet_view(request, "0" * 16)["Cache-Control"] == "no-store"
    monkeypatch.setattr(assets, "STYLES", assets.STYLES[:-1])
    assert assets.stylesheet().digest != digest


@pytest.mark.parametrize("path", sorted((STATIC / "js").glob("*.js")), ids=lambda path: path.name)
def test_imports_are_found_as_browsers_find_them(path: Path) -> None:
    pending, seen = [path], set()
    while pending:
        text = pending.pop().read_text()
        for name in re.findall(r'(?:from|import) "\./([\w.-]+)"', text):
            if name not in seen and name != path.name:
                seen.add(name)
                pending.append(STATIC / "js" / name)
    found = assets.imported_modules(f"reviews/js/{path.name}")
    assert set(found) == {f"reviews/js/{name}" for name in seen}
    assert len(found) == len(seen)


def test_modules_do_not_delay_the_stylesheet() -> None:
    loaded = desk.module("reviews/js/queue.js")
    assert loaded.count("<link") == len(assets.imported_modules("reviews/js/queue.js"))
    assert loaded.count('fetchpriority="low"') == loaded.count("<link") + loaded.count("<script")
