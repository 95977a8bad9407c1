"""JSON values as YAML text and back, without loss.

Read as YAML 1.2: `no`, `on` and `2026-01-31` are strings.  Written so that a reader of YAML 1.1
agrees: a string that either version would read as something else is quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from workflows.engine.values.bounded_json import (
    DEFAULT,
    BoundedJSONError,
    Limits,
    check_value,
    path_text,
)

_TAG = "tag:yaml.org,2002:"
_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: Numbers that one version of YAML reads as text, or as another number, than the other version.
_AMBIGUOUS: Final = re.compile(
    r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|\.inf|\.Inf|\.INF"
    r"|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)"
    r"|\.nan|\.NaN|\.NAN"
)
_NOT_ALLOWED: Final = re.compile(
    r"[^\t\n\r\x20-\x7E\x85\xA0-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]"
)
# The parser in C is twenty times as fast; PyYAML is built without it on some platforms.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Writer(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not text.replace("\n", "").isprintable():
        style = '"'
    elif "\n" in text and not re.search(r"[ \t]\n|\A\s|\n\n\Z|[^\x20-\x7e\n]", text):
        style = "|"  # keeps the lines of code readable
    return writer.represent_scalar(f"{_TAG}str", text, style=style)


for _name, _pattern, _first in (
    ("float", _FLOAT, "-0123456789"),
    ("ambiguous", _AMBIGUOUS, "-+.0123456789"),
):
    _matches = re.compile(rf"^(?:{_pattern.pattern})$")
    _Writer.add_implicit_resolver(f"{_TAG}{_name}", _matches, list(_first))
_Writer.add_representer(str, _write_text)


def dump(value: Any) -> str:
    """Return a JSON value as YAML, with the keys in their order."""
    text: str = yaml.dump(
        value, Dumper=_Writer, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def load(text: str, *, limits: Limits = DEFAULT) -> Any:
    """Return the JSON value of a YAML document; work and memory are bounded by `limits`.

    Raises BoundedJSONError with the path and the line for text that is not YAML, for aliases, tags
    and duplicate keys, for numbers that versions of YAML read differently, and for what JSON
    cannot hold.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > limits.max_bytes:
        raise BoundedJSONError("", f"is longer than {limits.max_bytes} characters")
    if wrong := _NOT_ALLOWED.search(text):
        line = text.count("\n", 0, wrong.start()) + 1
        message = f"has the character U+{ord(wrong[0]):04X}, which YAML does not allow"
        raise BoundedJSONError("", f"{message} (line {line})")
    reader = _Reader(limits)
    try:
        for event in yaml.parse(text, Loader=_Parser):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        message = f"is not valid YAML ({error.problem or error.context}{where})"
        raise BoundedJSONError("", message) from error
    check_value(reader.value, limits)
    return reader.value


@dataclass(slots=True)
class _Container:
    """A list, or an object with the key that waits for its value."""

    value: Any
    key: str | None = None


class _Reader:
    """Builds the value from the events of the parser; raises BoundedJSONError."""

    def __init__(self, limits: Limits) -> None:
        self.value: Any = None
        self._limits = limits
        self._open: list[_Container] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._error(event, "has a second document")
            if event.version and tuple(event.version) < (1, 2):
                message = "is YAML 1.1, which reads no as false; remove the line %YAML"
                raise self._error(event, message)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._attach(self._open.pop().value)
        elif isinstance(event, yaml.NodeEvent):
            self._check(event)
            self._take_node(event)

    def _check(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            message = f"refers to *{event.anchor}; aliases are not supported, repeat the value"
            raise self._error(event, message)
        if event.tag is not None:
            message = f"has the tag {event.tag[:60]}; tags are not supported"
            raise self._error(event, message)
        self._nodes += 1
        # Keys are nodes too; check_value counts exactly.
        if self._nodes > 2 * self._limits.nodes:
            raise self._error(event, f"has more than {self._limits.nodes} values")

    def _take_node(self, event: Any) -> None:
        holder = self._open[-1] if self._open else None
        if holder is not None and isinstance(holder.value, dict) and holder.key is None:
            holder.key = self._key(event, holder.value)
        elif isinstance(event, yaml.ScalarEvent):
            self._attach(self._scalar(event))
        elif len(self._open) == self._limits.depth:
            message = f"is nested more than {self._limits.depth} levels deep"
            raise self._error(event, message)
        else:
            self._open.append(_Container({} if isinstance(event, yaml.MappingStartEvent) else []))

    def _attach(self, value: Any) -> None:
        """Put a complete value into the innermost open container."""
        if not self._open:
            self.value = value
            return
        holder = self._open[-1]
        if holder.key is None:
            holder.value.append(value)
        else:
            holder.value[holder.key] = value
            holder.key = None

    def _key(self, event: Any, holder: dict[str, Any]) -> str:
        key = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(key, str):
            shown = event.value[:60] if isinstance(event, yaml.ScalarEvent) else "a list or object"
            message = f"has a key that is not text ({shown or 'empty'}); put it in quotes"
            raise self._error(event, message)
        if key in holder:
            raise self._error(event, f"has the key {key[:60]!r} twice")
        return key

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text: str = event.value
        if event.style:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text):
            if len(text) > self._limits.int_digits:
                message = f"is a whole number of more than {self._limits.int_digits} digits"
                raise self._error(event, message)
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _AMBIGUOUS.fullmatch(text):
            message = (
                f"has the number {text[:60]}, which versions of YAML read differently; write it"
                " in decimal digits, or put it in quotes if it is text"
            )
            raise self._error(event, message)
        return text

    def _error(self, event: Any, message: str) -> BoundedJSONError:
        steps: list[str | int] = []
        for each in self._open:
            if isinstance(each.value, list):
                steps.append(len(each.value))
            elif each.key is not None:
                steps.append(each.key)
        return BoundedJSONError(path_text(steps), f"{message} (line {event.start_mark.line + 1})")
