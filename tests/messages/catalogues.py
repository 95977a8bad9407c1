"""The catalogues in locale/: .po files people write, .mo files the product reads."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from tests.architecture.files import ROOT
from tests.messages.gather import DOMAINS, template_of

LANGUAGES: Final = ("en", "fr")
#: Always the same, so that the files change with their words alone.
_DATED: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PLURALS: Final = {"en": "nplurals=2; plural=(n != 1);", "fr": "nplurals=2; plural=(n > 1);"}


def po_path(language: str, domain: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / f"{domain}.po"


def read(language: str, domain: str) -> Catalog:
    """The catalogue as it is; empty when there is no file yet."""
    path = po_path(language, domain)
    if not path.exists():
        return Catalog(locale=language, domain=domain)
    with path.open("rb") as file:
        return read_po(file, locale=language, domain=domain)


def renewed(language: str, domain: str) -> Catalog:
    """The catalogue with what is marked now: translations kept, what is gone dropped."""
    old, new = read(language, domain), fresh(language, domain)
    for message in template_of(domain):
        if not message.id:
            continue
        known = old.get(message.id, message.context)
        string = known.string if known is not None and not known.fuzzy else ""
        if language == "en":
            string = message.id
        elif not string and message.pluralizable:
            string = ("", "")
        new.add(message.id, string, message.locations, context=message.context)
    return new


def fresh(language: str, domain: str) -> Catalog:
    """An empty catalogue with the header that all of ours have."""
    catalog = Catalog(
        locale=language,
        domain=domain,
        project="Holdpoint",
        fuzzy=False,
        header_comment="# The words of Holdpoint. See docs/howto/translate.md.",
        creation_date=_DATED,
        revision_date=_DATED,
        last_translator="Holdpoint",
        language_team=language,
    )
    catalog.mime_headers = [
        ("Language", language),
        ("Plural-Forms", _PLURALS[language]),
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Transfer-Encoding", "8bit"),
    ]
    return catalog


def as_po(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_po(out, catalog, width=100, sort_by_file=True, include_lineno=False)
    return out.getvalue()


def as_mo(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def untranslated(catalog: Catalog) -> list[Message]:
    """Entries without a word, or with fewer forms than the language has."""

    def is_empty(message: Message) -> bool:
        strings = message.string if isinstance(message.string, tuple | list) else [message.string]
        return message.fuzzy or not all(strings)

    return [message for message in catalog if message.id and is_empty(message)]


def write(language: str, domain: str) -> list[Message]:
    """Gather, write .po and .mo; what still waits for a translation."""
    catalog = renewed(language, domain)
    path = po_path(language, domain)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_po(catalog))
    path.with_suffix(".mo").write_bytes(as_mo(read(language, domain)))
    return untranslated(catalog)


def write_all() -> list[Message]:
    """Every catalogue of every domain."""
    return [
        each for domain in DOMAINS for language in LANGUAGES for each in write(language, domain)
    ]
