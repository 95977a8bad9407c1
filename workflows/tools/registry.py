"""Python tools: a decorator declares them, their schemas come from their type hints."""

from __future__ import annotations

import importlib
import inspect
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeVar

from django.apps import apps
from django.conf import settings

from workflows.common.schemas import FieldError
from workflows.engine.permissions import named

from .signatures import Signature

F = TypeVar("F", bound=Callable[..., Any])

#: Modules whose import declares the tools that come with the product.
BUILTIN_MODULES = (
    "workflows.tools.basic",
    "workflows.tools.files",
    "workflows.tools.parsing",
    "workflows.tools.http",
    "workflows.tools.demo",
)

_SERVER = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A declared function; `name` is "server.tool", the schemas are JSON Schema objects."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    read_only: bool
    idempotent: bool
    permission_set: str
    is_async: bool
    signature: Signature = field(repr=False)

    @property
    def server(self) -> str:
        """The part of the name before the first dot."""
        return self.name.partition(".")[0]

    @property
    def asks(self) -> bool:
        """Whether it can ask for more permission: it looks at its context."""
        return self.signature.takes_context

    @property
    def function(self) -> Callable[..., Any]:
        """What the decorator was put on."""
        return self.signature.function


class ToolRegistry:
    """Tools by qualified name."""

    def __init__(self) -> None:
        self._tools: dict[str, PythonTool] = {}
        self._lock = threading.Lock()

    def add(self, tool: PythonTool) -> None:
        """Register `tool`; ValueError if another function has its name.

        The same function again (a module that is imported anew) takes the place of its old self.
        """
        with self._lock:
            standing = self._tools.get(tool.name)
            if standing is not None and _home(standing.function) != _home(tool.function):
                homes = f"{_home(standing.function)} and {_home(tool.function)}"
                raise ValueError(f"two tools are called {tool.name!r}: {homes}")
            self._tools[tool.name] = tool

    def get(self, name: str) -> PythonTool | None:
        """The tool with this qualified name, or None."""
        return self._tools.get(name)

    def all(self) -> tuple[PythonTool, ...]:
        """Every registered tool, by name."""
        return tuple(self._tools[name] for name in sorted(self._tools))


_registry = ToolRegistry()


def tool(
    *,
    server: str = "builtin",
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    permission_set: str = "minimal",
    title: str | None = None,
    registry: ToolRegistry | None = None,
) -> Callable[[F], F]:
    """Declare a function as a tool; it stays callable as it was.

    Sync and async functions alike.  The docstring is the description, every parameter but `ctx`, a
    ToolContext, is an argument, and its hints become the schemas.  ValueError for a bad name,
    an unknown permission set or a missing docstring.
    """

    def declare(function: F) -> F:
        declared = _describe(
            function,
            name=_qualified(server, name or function.__name__),
            title=title,
            read_only=read_only,
            idempotent=idempotent,
            permission_set=permission_set,
        )
        (_registry if registry is None else registry).add(declared)
        return function

    return declare


def _describe(
    function: Callable[..., Any],
    *,
    name: str,
    title: str | None,
    read_only: bool,
    idempotent: bool,
    permission_set: str,
) -> PythonTool:
    named(permission_set)
    description = inspect.getdoc(function)
    if not description:
        raise ValueError(f"tool {name!r} needs a docstring: people and search read it")
    signature = Signature.of(function)
    return PythonTool(
        name=name,
        title=title or function.__name__.replace("_", " ").capitalize(),
        description=description,
        input_schema=signature.input_schema,
        output_schema=signature.output_schema,
        read_only=read_only,
        idempotent=idempotent,
        permission_set=permission_set,
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
    )


def _qualified(server: str, name: str) -> str:
    if not _SERVER.fullmatch(server):
        raise ValueError(f"{server!r} is not a server name (small letters, digits, _ and -)")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a tool name (letters, digits, _ and -)")
    return f"{server}.{name}"


def _home(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def get(name: str) -> PythonTool | None:
    """The Python tool called `name` ("server.tool"), or None; finds the tools on first use."""
    discover()
    return _registry.get(name)


def confines(name: str) -> bool:
    """Whether the tool called `name` can be held to a smaller permission set than its own.

    That takes a Python tool that looks at its context; a tool of an MCP server never does.
    """
    found = get(name)
    return found is not None and found.asks


def argument_errors(name: str, arguments: Any) -> tuple[FieldError, ...]:
    """What the Python tool called `name` would refuse of these arguments; () for other tools.

    A tool says more than its schema with validators in its hints (`AfterValidator`); they run
    here before anybody approves, and again when the tool is called.
    """
    found = get(name)
    if found is None or not isinstance(arguments, Mapping):
        return ()
    return found.signature.errors(arguments)


def all_tools() -> tuple[PythonTool, ...]:
    """Every Python tool, by name; finds them on first use."""
    discover()
    return _registry.all()


_discovered = threading.Event()


def discover(*, again: bool = False) -> None:
    """Import every module that declares tools, once per process.

    Those are the built-in ones, what the setting HOLDPOINT["tool_modules"] adds, and the `tools`
    module of each installed app that has one.
    """
    if _discovered.is_set() and not again:
        return
    for module in (*BUILTIN_MODULES, *settings.HOLDPOINT.get("tool_modules", ())):
        importlib.import_module(module)
    for config in apps.get_app_configs():
        module = f"{config.name}.tools"
        if not config.name.startswith("django.") and find_spec(module) is not None:
            importlib.import_module(module)
    _discovered.set()
