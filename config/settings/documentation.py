"""docs/settings.md: the tables of all settings, written from their classes."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from config.paths import BASE_DIR
from config.settings.topic import Topic, extra_of, variable_of
from config.settings.topics import ALL

PATH = BASE_DIR / "docs" / "settings.md"
HEAD = """# Settings

Every setting is an environment variable. `manage.py settings_doc` writes this page from the
classes in `config/settings/topics.py`. A value that cannot be parsed stops the process and names
the variable. A secret `NAME` can be read from a file instead: set `NAME_FILE` to its path. Lists
are comma-separated. Switches are 0 or 1.
"""


def document() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *(line for topic in ALL for line in _table(topic))])


def _table(topic: type[Topic]) -> Iterator[str]:
    yield f"## {(topic.__doc__ or '').strip().rstrip('.')}\n"
    yield "| variable | default | meaning |"
    yield "|---|---|---|"
    for name, field in topic.model_fields.items():
        secret = " Secret." if extra_of(field)["secret"] else ""
        cells = (
            f"`{variable_of(name, field)}`",
            _default(field),
            f"{field.description}{_range(field)}{secret}",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _default(field: FieldInfo) -> str:
    if shown := extra_of(field)["shown"]:
        return str(shown)
    if field.is_required():
        return "required"
    return _text(field.default)


def _text(value: Any) -> str:
    if value in ("", None, [], {}):
        return "none"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return f"{value:g}" if value < 1_000_000 else str(value)
    if isinstance(value, dict):
        return f"`{json.dumps(value)}`"
    return f"`{','.join(value) if isinstance(value, list) else value}`"


def _range(field: FieldInfo) -> str:
    """Return the range of a number, such as " From 1 to 256."."""
    least, most = (
        next((getattr(each, bound) for each in field.metadata if hasattr(each, bound)), None)
        for bound in ("ge", "le")
    )
    if least is None and most is None:
        return ""
    if most is None:
        return f" At least {least:,}."
    return f" From {least:,} to {most:,}."
