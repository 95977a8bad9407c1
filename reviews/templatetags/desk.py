"""Template tags and filters for times, states and payload text.

All are pure and escape their arguments: payloads come from agents and are untrusted.
"""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.dates import MONTHS
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components.assets import imported_modules, stylesheet
from reviews.components.number_formatting import at_least as short_count
from reviews.components.number_formatting import counted as counted_text
from reviews.components.number_formatting import decimal, limits_text, short_day
from reviews.components.reasons import render_stored
from workflows import extensions
from workflows.common.schemas import FormField

register = template.Library()

#: An escape of JSON. It is read whole: the `n` after an escaped backslash is a letter.
_ESCAPE: Final = re.compile(r"\\.")


register.simple_tag(extensions.menu_entries)


@register.simple_tag
def stylesheet_url() -> str:
    """Return the address of the stylesheet of all pages."""
    return reverse("reviews:stylesheet", args=[stylesheet().digest])


@register.simple_tag
def module(name: str) -> SafeString:
    """Load a JavaScript module, and at the same time the modules that it imports.

    The browser requests them after the stylesheet, for which the first paint waits.
    """
    return _module(name, imported_modules(name))


# Keyed by the module and its imports; bounded by 128; addresses of files do not change.
@lru_cache(maxsize=128)
def _module(name: str, imported: tuple[str, ...]) -> SafeString:
    preloads = format_html_join(
        "",
        '<link rel="modulepreload" fetchpriority="low" href="{}">',
        [[static(each)] for each in imported],
    )
    return format_html(
        '{}<script type="module" fetchpriority="low" src="{}"></script>', preloads, static(name)
    )


class StatusLook(NamedTuple):
    """The display of a state: a colour, a shape and a word."""

    meaning: str  # waiting | good | bad | running | quiet: the colour's class
    shape: str
    word: str


STATUS_LOOKS: Final[Mapping[str, StatusLook]] = {
    # executions
    "PENDING": StatusLook("quiet", "○", N_("pending")),
    "RUNNING": StatusLook("running", "▶", N_("running")),
    "PAUSED_FOR_REVIEW": StatusLook("waiting", "◔", N_("waits for review")),
    "AWAITING_AGENT": StatusLook("waiting", "‖", N_("waits for an agent")),
    "COMPLETED": StatusLook("good", "✓", N_("completed")),
    "FAILED": StatusLook("bad", "✕", N_("failed")),
    "ABORTED": StatusLook("bad", "■", N_("aborted")),
    # tasks
    "SUCCEEDED": StatusLook("good", "✓", N_("done")),
    "SKIPPED": StatusLook("quiet", "\N{EN DASH}", N_("skipped")),
    "REJECTED": StatusLook("bad", "✕", N_("rejected")),
    "HELD": StatusLook("waiting", "◔", N_("waits")),
    "SPECULATED": StatusLook("quiet", "◌", N_("precomputed")),
    # tasks of a plan that is compared with another
    "KEPT": StatusLook("quiet", "=", N_("kept")),
    "ADDED": StatusLook("good", "+", N_("added")),
    "CHANGED": StatusLook("changed", "~", N_("changed")),
    "REMOVED": StatusLook("bad", "\N{MINUS SIGN}", N_("removed")),
    "DROPPED": StatusLook("bad", "✕", N_("dropped")),
    # decisions and what ends a hold without one
    "APPROVE": StatusLook("good", "✓", N_("approved")),
    "REJECT": StatusLook("bad", "✕", N_("rejected")),
    "REQUEST_CHANGES": StatusLook("running", "↻", N_("sent back for changes")),
    "RETURNED": StatusLook("running", "↻", N_("sent back for changes")),
    "WITHDRAW": StatusLook("quiet", "↶", N_("withdrawn")),
    "EXPIRED": StatusLook("quiet", "◷", N_("timed out")),
    "WITHDRAWN": StatusLook("quiet", "\N{EN DASH}", N_("withdrawn")),
}


def look_of(status: str) -> StatusLook:
    """Return the display of `status`; an unknown status is shown unchanged, in grey."""
    known = STATUS_LOOKS.get(str(status).upper())
    if known is None:
        return StatusLook("quiet", "·", str(status).replace("_", " ").lower())
    return known._replace(word=_(known.word))


def duration_text(seconds: float) -> str:
    """Format seconds in one unit, rounded down: `40 s`, `3 min`, `1 day`; `now` below 1 s."""
    whole = int(abs(seconds))
    if whole >= 86_400:
        days = whole // 86_400
        return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}
    for size, unit in ((3_600, "h"), (60, "min"), (1, "s")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return _("now")


def remaining_text(seconds: float) -> str:
    """Format the time until a deadline in one unit, rounded: `90 days`, `2 h`, `1 min`."""
    for size, unit in ((60, 1), (3_600, 60), (86_400, 3_600)):
        if seconds < size:
            return duration_text(round(seconds / unit) * unit)
    return duration_text(round(seconds / 86_400) * 86_400)


def lasting_text(seconds: float) -> str:
    """Format a duration as `duration_text` does; below one second `0.4 s` or `0 s`."""
    if seconds >= 1:
        return duration_text(seconds)
    return f"{decimal(seconds)} s" if seconds >= 0.05 else "0 s"


@register.simple_tag
def status_chip(status: str, *, plain: bool = False, word: str = "") -> SafeString:
    """Render a state as a chip or (`plain`) as text; `word` overrides its label."""
    look = look_of(status)
    return format_html(
        '<span class="status {} {}"><span class="shape" aria-hidden="true">{}</span>{}</span>',
        look.meaning,
        "" if plain else "chip",
        look.shape,
        word or look.word,
    )


def _exact(moment: datetime) -> str:
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    # A list has many of these: `date_format` takes four times as long for the same text.
    day = f"{local.day} {MONTHS[local.month]} {local.year}"
    return f"{day}, {local:%H:%M:%S} {local.tzname() or ''}".strip()


@register.simple_tag
def ago(moment: datetime | None) -> SafeString | str:
    """Render the time since `moment`; the exact time is the tooltip, and clock.js updates it."""
    if moment is None:
        return ""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    words = duration_text(seconds)
    return format_html(
        '<time datetime="{}" title="{}" data-clock="ago">{}</time>',
        moment.isoformat(),
        _exact(moment),
        words if abs(seconds) < 1 else _("%(span)s ago") % {"span": words},
    )


@register.simple_tag
def left(moment: datetime | None) -> SafeString | str:
    """Render the time until a deadline; `overdue` after it."""
    if moment is None:
        return ""
    seconds = (moment - datetime.now(UTC)).total_seconds()
    return format_html(
        '<time datetime="{}" title="{}" data-clock="left">{}</time>',
        moment.isoformat(),
        _exact(moment),
        _("%(span)s left") % {"span": remaining_text(seconds)} if seconds > 0 else _("overdue"),
    )


def elapsed_text(seconds: float) -> str:
    """Format seconds as a running clock: `12 s`, `1 min 20 s`, `2 h 5 min`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@register.simple_tag
def elapsed(moment: datetime) -> SafeString:
    """Render the elapsed time since `moment`; clock.js updates it."""
    return format_html(
        '<time datetime="{}" title="{}" data-clock="for">{}</time>',
        moment.isoformat(),
        _("since %(moment)s") % {"moment": _exact(moment)},
        elapsed_text((datetime.now(UTC) - moment).total_seconds()),
    )


@register.simple_tag
def clock(
    moment: datetime | None, *, seconds: bool = False, date: bool = False
) -> SafeString | str:
    """Render the time of day, with the day if it is not today, or (`date`) with the full date."""
    if moment is None:
        return ""
    local = timezone.localtime(moment)
    hours = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    day = short_day(local) if local.date() != timezone.localdate() else ""
    if date:
        day = formats.date_format(local, "j F Y")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        _exact(moment),
        f"{day}, {hours}" if date else f"{day} {hours}".strip(),
    )


@register.filter
def at_least(number: int) -> str:
    """Format a count limited by COUNTED for a badge: `12`, `1,000+`."""
    return short_count(number)


@register.filter
def reason_text(row: object, name: str) -> str:
    """Return the stored sentence `name` of a row in the active language."""
    return render_stored(row, name)


@register.filter
def seconds_text(seconds: float | None) -> str:
    """Format seconds as `0.4 s`, `12 s`, `3 min`; "" for None."""
    if seconds is None:
        return ""
    return f"{decimal(seconds)} s" if 0 < seconds < 10 else duration_text(seconds)


@register.filter
def value_text(value: object) -> str:
    """Format one side of a change: text unchanged, other values as JSON, `(nothing)` if absent."""
    if isinstance(value, Enum):
        return _("(nothing)")
    if value == "":
        return _("(empty)")
    return value if isinstance(value, str) else pretty_json(value)


@register.filter
def pretty_json(value: object) -> str:
    """Format `value` as indented JSON; values that are not JSON become strings."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def json_with_line_breaks(value: object) -> str:
    r"""Format `value` as `pretty_json` does, with the line breaks of its texts instead of `\n`."""
    return _ESCAPE.sub(lambda found: "\n" if found[0] == r"\n" else found[0], pretty_json(value))


@register.filter
def rows_for(text: str) -> int:
    """Return the number of rows of the textarea for `text`: 3 to 14."""
    wrapped = sum(1 + len(line) // 80 for line in str(text).split("\n"))
    return max(3, min(14, wrapped + 1))


@register.filter
def dom_id(path: str, prefix: str = "") -> str:
    """Return a unique element id for a path and prefix.

    The placeholder of a new list item stays at the end, so that a script can number it.
    """
    text = f"{prefix} {path}"
    tail = "-NEW" if "NEW" in text else ""
    return f"f-{zlib.crc32(text.encode('utf-8', 'replace')):08x}{tail}"


@register.filter
def field_hint(field: FormField) -> str:
    """Return the hint of a field: its description and, for a number, its limits."""
    return " · ".join(filter(None, (visible(field.description), limits_text(field.rules))))


@register.filter
def visible(text: object) -> str:
    """Escape invisible and direction-changing characters of `text` as `[U+202E]`."""
    value = str(text)
    if value.isprintable():
        return value
    hidden = {
        ord(char): f"[U+{ord(char):04X}]"
        for char in set(value).difference("\n\t\r")
        if unicodedata.category(char) in ("Cf", "Cc", "Co", "Cs")
    }
    return value.translate(hidden) if hidden else value


@register.filter
def stress(sentence: str, subject: str) -> SafeString:
    """Escape `sentence` and set the first occurrence of `subject` in bold."""
    text, name = visible(sentence), visible(subject)
    if not name or name not in text:
        return conditional_escape(text)
    before, _, after = text.partition(name)
    return format_html("{}<b>{}</b>{}", before, name, after)


@register.filter
def counted(number: int, noun: str) -> str:
    """Format a count with its noun, one of NOUNS: `1 change`, `2 changes`."""
    return counted_text(number, noun)


@register.filter
def look_class(status: str) -> str:
    """The colour class of a state: waiting, good, bad, running or quiet."""
    return look_of(status).meaning


@register.filter
def look_shape(status: str) -> str:
    """The shape of a state, one character."""
    return look_of(status).shape


@register.filter
def look_word(status: str) -> str:
    """The word of a state."""
    return look_of(status).word
