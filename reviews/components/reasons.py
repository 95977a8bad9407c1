"""Render reasons in the language of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from workflows.engine.values.reasons import Reason, load_reason


def render_reason(reason: Reason | str) -> str:
    """Return a reason in the active language; a text of a person or a tool stays as it is."""
    return reason.render(gettext) if isinstance(reason, Reason) else reason


def render_stored(row: object, name: str) -> str:
    """Return the sentence `name` of a model row or an event payload in the active language.

    A text without a code stays as it is: a person or a tool wrote it, or it is older than codes.
    """
    reason = load_reason(_value(row, f"{name}_code"), _value(row, f"{name}_params"))
    return str(_value(row, name) or "") if reason is None else render_reason(reason)


def _value(row: object, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)
