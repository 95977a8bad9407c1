"""JSON Schemas of Python functions, from their type hints."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError

_CONTEXT = "ctx"


def schema_from_callable(func: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the input and output schema of a tool function; output None without a return hint.

    A parameter named `ctx` belongs to the runner and is left out. Parameters without a hint accept
    any value.

    Raises:
        TypeError: a parameter cannot be passed by keyword, or a hint has no schema.
    """
    hints = get_type_hints(func, include_extras=True)
    fields: dict[str, Any] = {}
    extra = False
    for name, parameter in inspect.signature(func).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{_name(func)}: {name!r} cannot be passed by keyword")
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
        elif name != _CONTEXT:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints.get(name, Any), default)
    config = ConfigDict(
        extra="allow" if extra else "forbid", arbitrary_types_allowed=False, protected_namespaces=()
    )
    try:
        model = create_model("Arguments", __config__=config, **fields)
        schema = model.model_json_schema()
        return _untitled(schema), _output_schema(hints.get("return", Any))
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        raise TypeError(f"{_name(func)}: its type hints have no schema: {error}") from error


def _output_schema(hint: Any) -> dict[str, Any] | None:
    if hint is Any or hint is None or hint is type(None):
        return None
    schema = TypeAdapter(hint).json_schema(mode="serialization")
    return schema or None


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove pydantic's titles; forms derive better ones from the names."""
    schema.pop("title", None)
    for rule in schema.get("properties", {}).values():
        rule.pop("title", None)
    return schema


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__qualname__", repr(func))
