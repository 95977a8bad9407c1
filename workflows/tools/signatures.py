"""From a function's type hints to the check of its arguments and the form of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, to_jsonable_python
from typing_extensions import TypedDict

from workflows.common.schemas import FieldError, schema_from_callable
from workflows.engine.bounded_json import BoundedJSONError, check_value, path_text
from workflows.engine.ports import TaskFailed

from .context import ToolContext

_CONTEXT = "ctx"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a tool takes and gives, and whether it wants the ToolContext (its parameter `ctx`)."""

    function: Callable[..., Any]
    arguments: TypeAdapter[dict[str, Any]]
    returns: TypeAdapter[Any]
    takes_context: bool
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Read `function`; TypeError for a parameter without a hint or with a star."""
        hints = get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            _check_parameter(function, parameter, hints)
            if name != _CONTEXT:
                optional = parameter.default is not inspect.Parameter.empty
                fields[name] = (NotRequired if optional else Required)[hints[name]]
        inputs, output = schema_from_callable(function)
        return cls(
            function=function,
            arguments=_arguments_adapter(fields),
            returns=TypeAdapter(hints.get("return", Any)),
            takes_context=_CONTEXT in hints,
            input_schema=inputs,
            output_schema=output,
        )

    def errors(self, arguments: Mapping[str, Any]) -> tuple[FieldError, ...]:
        """What is wrong with these arguments by the hints, their validators included."""
        try:
            self.arguments.validate_python(dict(arguments))
        except ValidationError as error:
            return tuple(FieldError(path_text(item["loc"]), item["msg"]) for item in _items(error))
        return ()

    def bind(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Keyword arguments for the function, converted to the hints.

        Raises TaskFailed naming the path of each bad argument; trying again would not help.
        """
        try:
            # A copy: a tool may change what it is given, and what is recorded is what it was given.
            bound = dict(self.arguments.validate_python(deepcopy(dict(arguments))))
        except ValidationError as error:
            raise TaskFailed(_complaint(error), retryable=False) from None
        if self.takes_context:
            bound[_CONTEXT] = context
        return bound

    def result(self, value: Any) -> Any:
        """`value` as a bounded JSON value; TaskFailed when it cannot be one."""
        try:
            declared = self.returns.dump_python(value, warnings="error")
            # In its JSON mode pydantic would turn NaN into null without a word.
            plain = to_jsonable_python(declared, inf_nan_mode="constants")
            check_value(plain)
        except BoundedJSONError as error:
            raise TaskFailed(f"the tool's result is refused: {error}", retryable=False) from None
        except (ValueError, TypeError, RecursionError) as error:
            message = f"the tool's result is not the JSON value it declares: {error}"
            raise TaskFailed(message, retryable=False) from None
        return plain


def _check_parameter(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> None:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"{function.__qualname__}: {parameter} cannot be given by name")
    if parameter.name not in hints:
        raise TypeError(f"{function.__qualname__}: {parameter.name} has no type hint")
    if (parameter.name == _CONTEXT) != (hints[parameter.name] is ToolContext):
        raise TypeError(f"{function.__qualname__}: the ToolContext is the parameter called 'ctx'")


def _arguments_adapter(fields: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
    # A TypedDict and not a model: a model's own attributes ("json", "copy") would clash.
    make: Any = TypedDict
    shape = make("Arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid", hide_input_in_errors=True)
    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
    return adapter


def _items(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False, include_context=False)


def _complaint(error: ValidationError) -> str:
    found = [f"argument {path_text(item['loc'])!r}: {item['msg']}" for item in _items(error)]
    more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
    return "; ".join(found[:5]) + more
