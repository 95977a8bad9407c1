"""Typed reads of the process environment.

Each helper takes a name and a default and returns a value of one type. A value that cannot be
parsed stops the process with `ImproperlyConfigured`, which names the variable. An empty string
counts as "not set".
"""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
HOURS_OF_DAY = 24


def env_str(name: str, default: str | None = None) -> str:
    """The text of `name`; without a default an unset variable raises `ImproperlyConfigured`."""
    value = os.environ.get(name, "").strip()
    if value:
        return value
    if default is None:
        raise ImproperlyConfigured(f"{name} is not set.")
    return default


def env_bool(name: str, *, default: bool) -> bool:
    """1/true/yes/on or 0/false/no/off, in any case."""
    word = env_str(name, "").lower()
    if not word:
        return default
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ImproperlyConfigured(f"{name}={word!r} is not a yes or no (use 1 or 0).")


def env_int(
    name: str, default: int, *, minimum: int | None = None, maximum: int | None = None
) -> int:
    """A whole number between `minimum` and `maximum`, both inclusive."""
    text = env_str(name, "")
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={text!r} is not a whole number.") from None
    _check_range(name, number, minimum, maximum)
    return number


def env_float(
    name: str, default: float, *, minimum: float | None = None, maximum: float | None = None
) -> float:
    """A finite number between `minimum` and `maximum`, both inclusive."""
    text = env_str(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={text!r} is not a number.") from None
    if not math.isfinite(number):
        raise ImproperlyConfigured(f"{name}={text!r} is not a finite number.")
    _check_range(name, number, minimum, maximum)
    return number


def env_hours(name: str) -> tuple[int, int] | None:
    """Hours of the day as `22-6`: from 22:00 until 06:00; None if it is not set."""
    text = env_str(name, "")
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text)
    hours = (int(match[1]), int(match[2])) if match else (24, 24)
    if max(hours) >= HOURS_OF_DAY or hours[0] == hours[1]:
        raise ImproperlyConfigured(f"{name}={text!r} is not like 22-6 (two hours, 0 to 23).")
    return hours


def env_list(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """Comma-separated words, trimmed, without empty ones."""
    text = env_str(name, "")
    if not text:
        return list(default)
    return [word for word in (part.strip() for part in text.split(",")) if word]


def env_json(name: str, default: dict[str, Any]) -> dict[str, Any]:
    """A JSON object."""
    text = env_str(name, "")
    if not text:
        return dict(default)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ImproperlyConfigured(f"{name} is not JSON.") from None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} is not a JSON object.")
    return value


def env_choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    """One of `choices`."""
    word = env_str(name, default)
    if word not in choices:
        raise ImproperlyConfigured(f"{name}={word!r} is none of {', '.join(choices)}.")
    return word


def env_path(name: str, default: Path) -> Path:
    """An absolute path; `~` is the user's home, a relative path starts at the working folder."""
    text = env_str(name, "")
    return (Path(text).expanduser() if text else default).absolute()


def env_secret(name: str, default: str | None = None) -> str:
    """The secret in `name`, or the content of the file that `NAME_FILE` points to.

    Setting both is refused: it would be unclear which one is in force.
    """
    path = env_str(f"{name}_FILE", "")
    if not path:
        return env_str(name, default)
    if env_str(name, ""):
        raise ImproperlyConfigured(f"Both {name} and {name}_FILE are set; set one of them.")
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name}_FILE={path!r} cannot be read: {error}.") from error
    if not secret:
        raise ImproperlyConfigured(f"{name}_FILE={path!r} is empty.")
    return secret


def _check_range(name: str, number: float, minimum: float | None, maximum: float | None) -> None:
    if minimum is not None and number < minimum:
        raise ImproperlyConfigured(f"{name}={number} is below {minimum}.")
    if maximum is not None and number > maximum:
        raise ImproperlyConfigured(f"{name}={number} is above {maximum}.")
