"""The base of the settings' classes: one variable of the environment per field.

A value that cannot be parsed stops the process with `ImproperlyConfigured`, which names the
variable. An empty text counts as not set. The secret `NAME` may be in the file that `NAME_FILE`
points to instead.
"""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Self

from django.core.exceptions import ImproperlyConfigured
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "HOLDPOINT_"
HOURS_OF_DAY = 24


def setting(
    default: Any,
    meaning: str,
    *,
    env: str = "",
    secret: bool = False,
    shown: str = "",
    ge: float | None = None,
    le: float | None = None,
) -> Any:
    """Return a field of a `Topic`.

    Args:
        default: `...` where the variable is required.
        meaning: the sentence of the documentation.
        env: the variable, if it is not HOLDPOINT_ and the name of the field.
        secret: whether the value may be in a file, and is never shown.
        shown: the default in the documentation, where it depends on other things.
        ge, le: the smallest and the largest number.
    """
    extra: dict[str, Any] = {"env": env, "secret": secret, "shown": shown}
    return Field(default, description=meaning, json_schema_extra=extra, ge=ge, le=le)


def extra_of(field: FieldInfo) -> dict[str, Any]:
    """Return what `setting` keeps of a field besides pydantic's own."""
    assert isinstance(field.json_schema_extra, dict)  # noqa: S101 - by `setting`
    return dict(field.json_schema_extra)


def variable_of(name: str, field: FieldInfo) -> str:
    """Return the environment variable of a field."""
    return str(extra_of(field)["env"]) or PREFIX + name.upper()


class Environment(PydanticBaseSettingsSource):
    """Reads each field from its variable, and secrets also from a file."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = variable_of(field_name, field)
        read = read_secret if extra_of(field)["secret"] else read_text
        return read(variable), field_name, False

    def __call__(self) -> dict[str, Any]:
        texts = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: text for name, text in texts.items() if text}


class Topic(BaseSettings):
    """The settings of one topic; `read` takes them from the environment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def read(cls) -> Self:
        """Return the values of the environment; raises `ImproperlyConfigured`."""
        try:
            return cls()
        except ValidationError as error:
            raise ImproperlyConfigured("; ".join(cls._problems(error))) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the process environment with `Environment` only."""
        return (Environment(settings_cls),)

    @classmethod
    def _problems(cls, error: ValidationError) -> list[str]:
        problems = []
        for each in error.errors(include_url=False):
            name = str(each["loc"][0]) if each["loc"] else ""
            message = each["msg"].removeprefix("Value error, ")
            if name not in cls.model_fields:
                problems.append(message)
                continue
            field = cls.model_fields[name]
            variable = variable_of(name, field)
            if each["type"] == "missing":
                problems.append(f"{variable} is not set.")
            elif extra_of(field)["secret"]:
                problems.append(f"{variable}: {message}.")
            else:
                problems.append(f"{variable}={read_text(variable)!r}: {message}.")
        return problems


def read_text(variable: str) -> str:
    """Return the text of a variable, "" where it is not set."""
    return os.environ.get(variable, "").strip()


def read_secret(variable: str) -> str:
    """Return the text of a variable, or of the file that `VARIABLE_FILE` points to."""
    path = read_text(f"{variable}_FILE")
    if not path:
        return read_text(variable)
    if read_text(variable):
        # It would be unclear which one is in force.
        raise ImproperlyConfigured(f"Both {variable} and {variable}_FILE are set; set one of them.")
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{variable}_FILE={path!r} cannot be read: {error}.") from error
    if not secret:
        raise ImproperlyConfigured(f"{variable}_FILE={path!r} is empty.")
    return secret


def _words(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return [word for word in (part.strip() for part in value.split(",")) if word]


def _json_object(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(parsed, dict):
        raise ValueError("is not a JSON object")
    return parsed


def _hours(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", value)
    hours = (int(match[1]), int(match[2])) if match else (24, 24)
    if max(hours) >= HOURS_OF_DAY or hours[0] == hours[1]:
        raise ValueError("is not like 22-6 (two hours, 0 to 23)")
    return hours


#: Comma-separated words, trimmed, without empty ones.
Words = Annotated[list[str], BeforeValidator(_words)]
#: An absolute path; `~` is the user's home, a relative path starts at the working folder.
Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
JsonObject = Annotated[dict[str, Any], BeforeValidator(_json_object)]
#: Hours of the day as `22-6`: from 22:00 until 06:00.
Hours = Annotated[tuple[int, int] | None, BeforeValidator(_hours)]
