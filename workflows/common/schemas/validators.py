"""Validators of jsonschema with bounded work, linear-time patterns and wildcards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fractions import Fraction
from functools import cache
from time import thread_time
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.protocols import Validator

from workflows.engine.values.bounded_json import canonical

from .patterns import matches

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]

_MAX_STEPS = 100_000
_MAX_SECONDS = 1.0


class TooMuchWork(Exception):
    """Validating the value against the schema takes too many steps or too long."""


class Run:
    """State of one validation: the remaining work, and the wildcard values."""

    def __init__(self, wildcard: Callable[[Any], bool] | None, *, has_patterns: bool) -> None:
        self.wildcard = wildcard
        self.has_patterns = has_patterns
        self._steps = _MAX_STEPS
        self._until = thread_time() + _MAX_SECONDS

    def spend(self, *parts: Any) -> None:
        """Count one keyword and the size of the containers that it reads."""
        self._steps -= 1 + sum(len(part) for part in parts if isinstance(part, (list, dict)))
        if self._steps < 0 or thread_time() > self._until:
            raise TooMuchWork

    def is_wild(self, value: Any) -> bool:
        return self.wildcard is not None and self.wildcard(value)

    def has_wild(self, value: Any) -> bool:
        """Return whether a wildcard is anywhere inside `value`."""
        if self.wildcard is None:
            return False
        waiting = [value]
        while waiting:
            item = waiting.pop()
            self.spend(item)
            if self.wildcard(item):
                return True
            if isinstance(item, dict):
                waiting.extend(item.values())
            elif isinstance(item, list):
                waiting.extend(item)
        return False


RUN: ContextVar[Run] = ContextVar("schema_run")


# Keyed by the draft, of which there are few; never stale: it depends only on the key.
@cache
def guarded(base: type[Validator]) -> type[Validator]:
    """Return the draft `base` with guarded keywords. Use it while RUN is set."""
    keywords: dict[str, Keyword] = {**base.VALIDATORS, **_OWN}
    known = {name: keyword for name, keyword in keywords.items() if name in base.VALIDATORS}
    wrapped = {name: _guard(name, keyword) for name, keyword in known.items()}
    if "oneOf" in known:
        wrapped["oneOf"] = _one_of(wrapped["oneOf"], wrapped["anyOf"])
    extended: type[Validator] = validators.extend(base, wrapped)  # type: ignore[no-untyped-call]
    return extended


def draft_of(schema: Any) -> type[Validator]:
    """Return the guarded draft of `$schema`; 2020-12 if it names no known draft."""
    return guarded(validators.validator_for(schema, default=Draft202012Validator))


def _guard(name: str, keyword: Keyword) -> Keyword:
    looks_inside = name in _LOOKS_INSIDE

    def check(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        run = RUN.get()
        run.spend(rule, value)
        if run.is_wild(value) or (looks_inside and run.has_wild(value)):
            return iter(())
        return keyword(validator, rule, value, schema) or iter(())

    return check


def _one_of(strict: Keyword, lenient: Keyword) -> Keyword:
    def check(validator: Any, rule: Any, value: Any, schema: Any) -> Any:
        return (lenient if RUN.get().has_wild(value) else strict)(validator, rule, value, schema)

    return check


def _pattern(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and matches(rule, value) is False:
        yield ValidationError(f"does not match {rule!r}")


def _pattern_properties(
    validator: Any, rule: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for pattern, inner in rule.items():
        RUN.get().spend(value)
        for key, item in value.items():
            if matches(pattern, key):
                yield from validator.descend(item, inner, path=key, schema_path=pattern)


def _additional_properties(
    validator: Any, rule: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    extras = extra_keys(value, schema)
    if rule is False and extras:
        yield ValidationError("has unknown fields")
    elif isinstance(rule, dict):
        for key in extras:
            yield from validator.descend(value[key], rule, path=key)


def extra_keys(value: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Return the keys that neither `properties` nor `patternProperties` of `schema` declares."""
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    extras = [key for key in value if key not in named]
    if patterns:
        RUN.get().spend(*([extras] * len(patterns)))
        extras = [key for key in extras if all(matches(p, key) is False for p in patterns)]
    return extras


def _unique_items(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if rule and isinstance(value, list) and len({canonical(item) for item in value}) != len(value):
        yield ValidationError("has an item twice")


def _multiple_of(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "number"):
        return
    if (Fraction(str(value)) / Fraction(str(rule))).denominator != 1:
        yield ValidationError(f"is not a multiple of {rule}")


def _unevaluated_properties(
    validator: Any, rule: Any, value: Any, schema: Any
) -> Iterator[ValidationError] | None:
    # The library matches patternProperties with a backtracking engine here.
    if RUN.get().has_patterns:
        return None
    plain: Keyword = Draft202012Validator.VALIDATORS["unevaluatedProperties"]
    return plain(validator, rule, value, schema)


_OWN: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "unevaluatedProperties": _unevaluated_properties,
}

#: Keywords that depend on the values inside a container, which a wildcard leaves undefined.
_LOOKS_INSIDE = frozenset(
    {"enum", "const", "not", "if", "contains", "uniqueItems", "unevaluatedItems"}
    | {"unevaluatedProperties", "dependentSchemas"}
)
