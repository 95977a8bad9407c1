"""What contrib apps add to the product; they call these functions in `AppConfig.ready()`.

`docs/extend.md` shows a whole app.  The core reads the registries and never imports an app.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.functional import Promise


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A link at the head of a page: `page` is the page's section, such as `tokens`."""

    page: str
    label: str | Promise
    url_name: str


_url_modules: list[str] = []
_menu_entries: list[MenuEntry] = []


def add_urls(module: str) -> None:
    """Add the addresses of a URL module, from the root of the site; it has an `app_name`."""
    _url_modules.append(module)


def url_modules() -> tuple[str, ...]:
    """Return the URL modules of all installed apps."""
    return tuple(_url_modules)


def add_menu_entry(entry: MenuEntry) -> None:
    """Add a link to the head of a page."""
    _menu_entries.append(entry)


def menu_entries(page: str) -> Iterator[MenuEntry]:
    """Yield the links at the head of a page, in the order of the installed apps."""
    return (entry for entry in _menu_entries if entry.page == page)
