"""Configuration of an MCP server, and an entry of its tool list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from workflows.common.http_headers import headers_problem


def env_problem(env: Mapping[str, str]) -> str:
    """Return why no process can get the variables `env`; "" if one can."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            return f"{name!r} cannot name a variable: it is empty or has '=' or NUL"
        if "\0" in value:
            return f"the value of {name!r} has a NUL, which cannot be passed to a program"
    return ""


@dataclass(frozen=True)
class McpServerSpec:
    """Connection parameters of one MCP server.

    A "stdio" server is started as `command` with `args`, confined (see `confinement`): it reads
    `read_paths`, reads and writes `write_paths`, and connects to `tcp_ports`. Its environment has
    `env`, PATH, LANG, and HOME and TMPDIR of its own. `run` names what its process is for, such as
    one execution: processes are not shared between runs. It starts in `folder`, the folder of the
    run, if there is one. An "http" server is reached by
    streamable HTTP at `url` with `headers` on every request. `start_seconds` limits start and
    handshake together. `elicits` declares that this client answers elicitations, which a call then
    has to do. The mappings are not copied: the caller must not change them afterwards.

    Raises:
        ValueError: a part is missing or malformed.
    """

    name: str
    transport: Literal["stdio", "http"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_paths: tuple[str, ...] = ()
    write_paths: tuple[str, ...] = ()
    tcp_ports: tuple[int, ...] = ()
    run: str = ""
    folder: str = ""
    start_seconds: float = 30.0
    elicits: bool = False

    def __post_init__(self) -> None:
        if not self.name or "." in self.name:
            raise ValueError(f"{self.name!r} cannot name a server: it is empty or has a dot")
        if self.transport == "stdio":
            self._check_stdio()
        elif self.transport == "http":
            self._check_http()
        else:
            raise ValueError(f"{self.name}: transport {self.transport!r} is not stdio or http")

    def _check_stdio(self) -> None:
        if not self.command:
            raise ValueError(f"{self.name}: a stdio server needs a command")
        if any("\x00" in word for word in (self.command, *self.args)):
            raise ValueError(f"{self.name}: a NUL cannot be passed to a program")
        problem = env_problem(self.env)
        if problem:
            raise ValueError(f"{self.name}: {problem}")

    def _check_http(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.name}: {self.url!r} is not an http(s) address")
        problem = headers_problem(self.headers)
        if problem:
            raise ValueError(f"{self.name}: {problem}")


@dataclass(frozen=True, slots=True)
class McpTool:
    """One entry of a server's tool list; the flags are its annotations, None if absent."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
