"""JSON values as YAML text and back, without loss.

Read as YAML 1.2 (core schema): `no`, `on` and `2026-01-31` are strings.  Written so that a reader
of YAML 1.1 agrees: a string that either version would read as something else is quoted.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from workflows.engine.bounded_json import BoundedJSONError, check_value

#: Characters of a document; the parser takes some seconds for a megabyte.
MAX_LENGTH: Final = 256 * 1024

_TAG = "tag:yaml.org,2002:"
_RESOLVERS: Final = (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    (
        "float",
        r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?",
        list("-0123456789"),
    ),
)


class _Reader(yaml.SafeLoader):
    yaml_implicit_resolvers: Any = {}

    def construct_mapping(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        """Refuse a key that appears twice, of which PyYAML would keep the last."""
        found = super().construct_mapping(node, *args, **kwargs)
        if len(found) < len(node.value):
            raise yaml.constructor.ConstructorError(problem="a key appears twice")
        return found


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


for _name, _pattern, _first in _RESOLVERS:
    _matches = re.compile(rf"^(?:{_pattern})$")
    _Reader.add_implicit_resolver(f"{_TAG}{_name}", _matches, _first)
    _Writer.add_implicit_resolver(f"{_TAG}{_name}", _matches, _first)
_Writer.add_representer(str, _write_text)


def dump(value: Any) -> str:
    """Return a JSON value as YAML, with the keys in their order."""
    text: str = yaml.dump(
        value, Dumper=_Writer, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def load(text: str) -> Any:
    """Return the JSON value of a YAML document.

    Raises BoundedJSONError for text that is not YAML, for aliases, and for what JSON cannot hold.
    """
    if len(text) > MAX_LENGTH:
        raise BoundedJSONError("", f"is longer than {MAX_LENGTH} characters")
    try:
        has_alias = any(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Reader)
        )
        # _Reader is a SafeLoader.
        value = None if has_alias else yaml.load(text, Loader=_Reader)  # noqa: S506
    except yaml.YAMLError as error:
        raise BoundedJSONError("", f"invalid YAML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BoundedJSONError("", "invalid YAML") from error
    if has_alias:
        raise BoundedJSONError("", "aliases (*name) are not supported")
    check_value(value)
    return value
