"""Every string that is marked for translation, from Python, templates and scripts."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.extract import extract

from tests.architecture.files import PACKAGES, ROOT, project_files

#: What marks a string, with the places of its arguments as Babel counts them. `N_` marks what is
#: kept in English and translated where it is shown.
KEYWORDS: Final = {
    "gettext": None,
    "gettext_lazy": None,
    "N_": None,  # gettext_noop
    "_": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}
#: Domain -> what Babel reads it with, by the ending of a file.
DOMAINS: Final = {
    "django": {".py": "python", ".html": "python"},
    "djangojs": {".js": "javascript"},
}


class Message(NamedTuple):
    """One marked string: `id` is (singular, plural) where it is counted."""

    id: str | tuple[str, str]
    context: str | None
    path: str


def sources(domain: str) -> Iterator[Path]:
    """Files of the product in which people's words can stand."""
    for path in project_files():
        parts = path.relative_to(ROOT).parts
        ours = parts[0] in PACKAGES or parts[0] == "templates"
        if ours and path.suffix in DOMAINS[domain] and "migrations" not in parts:
            yield path


def messages(domain: str) -> Iterator[Message]:
    """All marked strings of `domain`, in the order of the files."""
    for path in sources(domain):
        text = path.read_text(encoding="utf-8")
        yield from messages_of(text, path.suffix, path.relative_to(ROOT).as_posix(), domain)


def messages_of(text: str, suffix: str, name: str, domain: str) -> Iterator[Message]:
    """The marked strings of one file, which is called `name` in errors."""
    if suffix == ".html":
        text = as_python(text, name)
    file = io.BytesIO(text.encode())
    for _, found, _, context in extract(DOMAINS[domain][suffix], file, keywords=KEYWORDS):
        yield Message(found if isinstance(found, str) else tuple(found), context, name)


def as_python(text: str, name: str) -> str:
    """A template as Django hands it to xgettext; flush left, for Python reads indentations."""
    from django.utils.translation.template import templatize

    return "\n".join(line.lstrip() for line in templatize(text, origin=name).splitlines())


def template_of(domain: str) -> Catalog:
    """Every marked string of `domain` without a translation."""
    catalog = Catalog(domain=domain)
    for message in messages(domain):
        catalog.add(message.id, locations=[(message.path, None)], context=message.context)
    return catalog
