"""Validate arguments and results of a tool by the type hints of its function."""

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
from workflows.engine.protocol.ports import TaskFailed
from workflows.engine.values.bounded_json import BoundedJSONError, check_value, path_text

from .context import ToolContext

_CONTEXT = "ctx"


@dataclass(frozen=True, slots=True)
class Signature:
    """Arguments and result of a tool, and whether it takes a ToolContext (parameter `ctx`)."""

    function: Callable[..., Any]
    arguments: TypeAdapter[dict[str, Any]]
    returns: TypeAdapter[Any]
    takes_context: bool
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Inspect `function`; raise TypeError for a parameter without a hint or with a star."""
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
        """Return the errors of these arguments by the hints and their validators."""
        try:
            self.arguments.validate_python(dict(arguments))
        except ValidationError as error:
            return tuple(FieldError(path_text(item["loc"]), item["msg"]) for item in _items(error))
        return ()

    def bind(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return keyword arguments for the function, converted by the hints.

        Raises TaskFailed, not retryable, with the path of each invalid argument.
        """
        try:
            # A copy: a tool may change its arguments, and the recorded arguments must stay.
            bound = dict(self.arguments.validate_python(deepcopy(dict(arguments))))
        except ValidationError as error:
            raise TaskFailed(_error_message(error), retryable=False) from None
        if self.takes_context:
            bound[_CONTEXT] = context
        return bound

    def result(self, value: Any) -> Any:
        """Convert `value` to bounded JSON; raise TaskFailed if it is invalid."""
        try:
            declared = self.returns.dump_python(value, warnings="error")
            # The JSON mode of pydantic would silently convert NaN to null.
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
    # A TypedDict, because attributes of a model ("json", "copy") would clash with arguments.
    make: Any = TypedDict
    shape = make("Arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid", hide_input_in_errors=True)
    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
    return adapter


def _items(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False, include_context=False)


def _error_message(error: ValidationError) -> str:
    messages = [f"argument {path_text(item['loc'])!r}: {item['msg']}" for item in _items(error)]
    more = f" (and {len(messages) - 5} more)" if len(messages) > 5 else ""
    return "; ".join(messages[:5]) + more
