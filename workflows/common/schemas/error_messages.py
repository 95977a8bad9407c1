"""Messages of validation errors for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import ValidationError

from workflows.engine.values.bounded_json import path_text

from .validators import extra_keys


@dataclass(frozen=True, slots=True)
class FieldError:
    """A validation error: `path` such as `items[3].name` ("" is the root) and `message`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "empty (null)",
}

_BOUNDS: dict[str, Callable[[Any], str]] = {
    "minimum": lambda n: f"must be at least {n}",
    "maximum": lambda n: f"must be at most {n}",
    "exclusiveMinimum": lambda n: f"must be more than {n}",
    "exclusiveMaximum": lambda n: f"must be less than {n}",
    "multipleOf": lambda n: f"must be a multiple of {n}",
    "minLength": lambda n: "must not be empty" if n == 1 else f"must have at least {n} characters",
    "maxLength": lambda n: f"must have at most {n} characters",
    "minItems": lambda n: f"must have at least {n} {'item' if n == 1 else 'items'}",
    "maxItems": lambda n: f"must have at most {n} {'item' if n == 1 else 'items'}",
    "minProperties": lambda n: f"must have at least {n} {'field' if n == 1 else 'fields'}",
    "maxProperties": lambda n: f"must have at most {n} {'field' if n == 1 else 'fields'}",
    "uniqueItems": lambda _: "must not have the same item twice",
    "pattern": lambda pattern: f"must match the pattern {brief(pattern)}",
    "const": lambda value: f"must be {brief(value)}",
    "enum": lambda values: (
        f"must be one of {', '.join(brief(v, 40) for v in values[:12])}"
        + (", …" if len(values) > 12 else "")
    ),
    "type": lambda names: f"must be {type_words(names)}",
    "contains": lambda _: "does not have the items it needs",
    "not": lambda _: "has a value that is ruled out",
    "propertyNames": lambda _: "has a field with a name that is not allowed",
}


def describe(error: ValidationError) -> Iterator[FieldError]:
    """Convert an error of jsonschema to one or more errors for people."""
    path = list(error.absolute_path)
    keyword, rule = error.validator, cast(Any, error.validator_value)
    value, schema = cast(Any, error.instance), cast(Any, error.schema)
    if keyword == "required":
        missing = [key for key in rule if key not in value]
        yield from (FieldError(path_text([*path, key]), "is required") for key in missing)
    elif keyword == "additionalProperties":
        extras = extra_keys(value, schema)
        yield from (FieldError(path_text([*path, key]), "is not a known field") for key in extras)
    elif keyword in ("anyOf", "oneOf"):
        yield from _describe_choice(error, path_text(path))
    else:
        yield FieldError(path_text(path), _sentence(error))


def type_words(names: str | list[str]) -> str:
    """Return type names of JSON Schema as words: "text", "a number or empty (null)"."""
    listed = [names] if isinstance(names, str) else names
    return " or ".join(_TYPES.get(name, name) for name in listed)


def brief(value: Any, longest: int = 80) -> str:
    """Return a value on one line, cut to `longest` characters."""
    if isinstance(value, (str, list, dict)):
        value = value[:longest] if isinstance(value, str) else value
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = json.dumps(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _sentence(error: ValidationError) -> str:
    keyword = str(error.validator)
    if error.schema is False:
        return "is not allowed here"
    if keyword == "type":
        return f"{_BOUNDS['type'](error.validator_value)}, not {_kind_words(error.instance)}"
    if keyword in _BOUNDS:
        return _BOUNDS[keyword](error.validator_value)
    if keyword == "dependentRequired":
        return "needs another field to be given as well"
    if keyword == "unevaluatedProperties":
        return "has fields that are not known"
    return "is not allowed by the schema"


def _kind_words(value: Any) -> str:
    if value is None:
        return "empty (null)"
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return _TYPES[name]
    return _TYPES["object" if isinstance(value, dict) else "array"]


def _describe_choice(error: ValidationError, path: str) -> Iterator[FieldError]:
    """Describe an error of `anyOf` or `oneOf`, by the alternative that was meant if it is clear."""
    forms: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        forms.setdefault(inner.relative_schema_path[0], []).append(inner)
    if not forms:
        yield FieldError(path, "fits more than one of the forms of which it may fit only one")
        return
    meant = [errors for errors in forms.values() if not any(map(_is_other_kind, errors))]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from describe(inner)
        return
    kinds = _named_kinds(forms)
    if not meant and kinds:
        yield FieldError(path, f"must be {kinds}, not {_kind_words(error.instance)}")
    else:
        yield FieldError(path, "fits none of the forms that are allowed")


def _is_other_kind(error: ValidationError) -> bool:
    return error.validator in ("type", "const") and not error.relative_path


def _named_kinds(forms: dict[Any, list[ValidationError]]) -> str:
    names: list[str] = []
    for errors in forms.values():
        rules = [
            cast(Any, e.validator_value)
            for e in errors
            if e.validator == "type" and _is_other_kind(e)
        ]
        if not rules:
            return ""
        names.extend([rules[0]] if isinstance(rules[0], str) else rules[0])
    return type_words(list(dict.fromkeys(names)))
