"""Format counts and numbers in the language of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final

from django.db.models import QuerySet
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

#: Rows are counted up to this number; pages show `1,000+` beyond it.
COUNTED: Final = 1_000
#: Noun -> its translatable plural forms.
NOUNS: Final[Mapping[str, Callable[[int], str]]] = {
    "change": lambda n: ngettext("%(n)s change", "%(n)s changes", n),
    "decision": lambda n: ngettext("%(n)s decision", "%(n)s decisions", n),
    "item": lambda n: ngettext("%(n)s item", "%(n)s items", n),
    "layer": lambda n: ngettext("%(n)s layer", "%(n)s layers", n),
    "result": lambda n: ngettext("%(n)s result", "%(n)s results", n),
    "review": lambda n: ngettext("%(n)s review", "%(n)s reviews", n),
    "run": lambda n: ngettext("%(n)s run", "%(n)s runs", n),
    "task": lambda n: ngettext("%(n)s task", "%(n)s tasks", n),
    "time": lambda n: ngettext("%(n)s time", "%(n)s times", n),
    "tool": lambda n: ngettext("%(n)s tool", "%(n)s tools", n),
    "unchanged line": lambda n: ngettext("%(n)s unchanged line", "%(n)s unchanged lines", n),
    "use": lambda n: ngettext("%(n)s use", "%(n)s uses", n),
}
#: Keyword of JSON Schema -> its limit in words.
_LIMITS: Final = {
    "minimum": N_("at least %(n)s"),
    "exclusiveMinimum": N_("more than %(n)s"),
    "maximum": N_("at most %(n)s"),
    "exclusiveMaximum": N_("less than %(n)s"),
    "multipleOf": N_("a multiple of %(n)s"),
}


def counted(number: int, noun: str) -> str:
    """`1 change`, `2 changes`; a noun that is not one of NOUNS stays English (`entry,entries`)."""
    if noun in NOUNS:
        return NOUNS[noun](number) % {"n": number}
    one, _comma, many = noun.partition(",")
    return f"{number} {one if number == 1 else many or one + 's'}"


def count_up_to(rows: QuerySet[Any, Any], most: int = COUNTED) -> int:
    """Return the number of rows; `most` + 1 means more.

    Ordered rows are scanned in their order, so the query uses the same index as the list.
    """
    return rows[: most + 1].count()


def at_least(number: int, most: int = COUNTED) -> str:
    """`999`, and `1,000+` for a number at which `count_up_to` stopped."""
    return f"{grouped(most)}+" if number > most else grouped(number)


def counted_at_least(number: int, noun: str) -> str:
    """`1 run`, `1,000+ runs`; the noun is one of NOUNS."""
    return NOUNS[noun](number) % {"n": at_least(number)}


def grouped(number: int) -> str:
    """`12,345` as the language groups thousands."""
    return str(number_format(number, force_grouping=True))


def decimal(number: float, places: int = 1) -> str:
    """`0.4` with the decimal mark of the language, rounded to `places`."""
    return str(number_format(round(number, places), places))


def short_day(day: date) -> str:
    """`3 Nov`."""
    return str(date_format(day, "j M"))


def percent(share: float, places: int = 0) -> str:
    """0.12 as `12%`."""
    return _("%(number)s%%") % {"number": decimal(share * 100, places)}


def number_text(value: Any) -> str:
    """Return a number as a field shows it: 30 for 30.0, "" for None."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def limits_text(rules: Mapping[str, Any]) -> str:
    """Return the limits that a JSON Schema sets to a number: "at least 1, at most 5"."""
    return ", ".join(
        _(words) % {"n": number_text(number)}
        for name, words in _LIMITS.items()
        if isinstance(number := rules.get(name), int | float) and not isinstance(number, bool)
    )
