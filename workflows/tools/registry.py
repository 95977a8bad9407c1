"""Registry of Python tools; the decorator `tool` declares them by their type hints."""

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
from workflows.engine.policy.permissions import named

from .signatures import Signature

F = TypeVar("F", bound=Callable[..., Any])

#: Modules that declare the built-in tools.
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
    remote: bool
    runner: str | None
    is_async: bool
    signature: Signature = field(repr=False)

    @property
    def server(self) -> str:
        """The part of the name before the first dot."""
        return self.name.partition(".")[0]

    @property
    def asks(self) -> bool:
        """Whether the tool can request more permissions: it takes a context."""
        return self.signature.takes_context

    @property
    def function(self) -> Callable[..., Any]:
        """The decorated function."""
        return self.signature.function


class ToolRegistry:
    """Tools by qualified name."""

    def __init__(self) -> None:
        self._tools: dict[str, PythonTool] = {}
        self._lock = threading.Lock()

    def add(self, tool: PythonTool) -> None:
        """Register `tool`; raise ValueError if another function has its name.

        A function whose module is imported again replaces its earlier registration.
        """
        with self._lock:
            existing = self._tools.get(tool.name)
            if existing is not None and _path(existing.function) != _path(tool.function):
                names = f"{_path(existing.function)} and {_path(tool.function)}"
                raise ValueError(f"two tools are called {tool.name!r}: {names}")
            self._tools[tool.name] = tool

    def get(self, name: str) -> PythonTool | None:
        """Return the tool with this qualified name, or None."""
        return self._tools.get(name)

    def all(self) -> tuple[PythonTool, ...]:
        """Return all tools, ordered by name."""
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
    remote: bool = False,
    runner: str | None = None,
    registry: ToolRegistry | None = None,
) -> Callable[[F], F]:
    """Declare a sync or async function as a tool; the function itself is unchanged.

    The docstring becomes the description, and the type hints become the schemas. Every parameter is
    an argument, except `ctx`, a ToolContext. A tool with `remote` may run in a process of a remote
    runner, which imports it and has neither settings nor a database; it runs on `runner` where the
    task of a plan names none. Raises ValueError for an invalid name, an unknown permission set, a
    missing docstring, or a remote tool that cannot be imported.
    """

    def declare(function: F) -> F:
        declared = _describe(
            function,
            name=_qualified(server, name or function.__name__),
            title=title,
            read_only=read_only,
            idempotent=idempotent,
            permission_set=permission_set,
            remote=remote,
            runner=runner,
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
    remote: bool,
    runner: str | None,
) -> PythonTool:
    named(permission_set)
    if runner is not None and not remote:
        raise ValueError(f"tool {name!r} has a runner: declare it with remote=True")
    if remote and ("<" in function.__qualname__ or function.__module__ == "__main__"):
        raise ValueError(f"the remote tool {name!r} must be a function that can be imported")
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
        remote=remote,
        runner=runner,
        is_async=inspect.iscoroutinefunction(function),
        signature=signature,
    )


def _qualified(server: str, name: str) -> str:
    if not _SERVER.fullmatch(server):
        raise ValueError(f"{server!r} is not a server name (small letters, digits, _ and -)")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a tool name (letters, digits, _ and -)")
    return f"{server}.{name}"


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def get(name: str) -> PythonTool | None:
    """Return the Python tool `name` ("server.tool"), or None; discover tools at first use."""
    discover()
    return _registry.get(name)


def confines(name: str) -> bool:
    """Whether the tool `name` can run with a smaller permission set than its own.

    Only Python tools that take a context can; tools of MCP servers cannot.
    """
    declared = get(name)
    return declared is not None and declared.asks


def argument_errors(name: str, arguments: Any) -> tuple[FieldError, ...]:
    """Return the validation errors of a Python tool's arguments; () for other tools.

    Validators in the hints (`AfterValidator`) can be stricter than the schema; they run here before
    an approval, and again when the tool is called.
    """
    declared = get(name)
    if declared is None or not isinstance(arguments, Mapping):
        return ()
    return declared.signature.errors(arguments)


def all_tools() -> tuple[PythonTool, ...]:
    """Return all Python tools, ordered by name; discover them at first use."""
    discover()
    return _registry.all()


_discovered = threading.Event()


def discover(*, again: bool = False) -> None:
    """Import every module that declares tools, once per process.

    These are the built-in modules, the setting HOLDPOINT["tool_modules"], and the `tools` module
    of each installed app.
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
