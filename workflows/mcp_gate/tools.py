"""The tools that a gate offers.

The gate calls a tool `server__tool`: names of tools may not have a dot in every client.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import mcp_types as types

from workflows.engine.protocol.ports import TaskFailed
from workflows.executions.layer_runner import spec_of
from workflows.models import Gate, GatePolicy, McpServer
from workflows.tools.mcp_client import McpServerSpec, pool

from .policies import tool_infos

_SEPARATOR: Final = "__"
#: Key in `_meta` of a tool: what happens to its calls.
POLICY: Final = "holdpoint/policy"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """The server and the tool that an exported name stands for."""

    spec: McpServerSpec
    tool: str

    @property
    def name(self) -> str:
        return f"{self.spec.name}.{self.tool}"


def exported_name(server: str, tool: str) -> str:
    """Return the name of a server's tool on a gate."""
    return f"{server}{_SEPARATOR}{tool}"


def target_of(gate: Gate, exported: str, token_id: int | None) -> Target | None:
    """Return what an exported name stands for; None if no server of the gate can have it.

    The longest name of a server wins, so each name stands for one tool.
    """
    rows = gate.servers.filter(enabled=True)
    found = [row for row in rows if exported.startswith(f"{row.name}{_SEPARATOR}")]
    if not found:
        return None
    row = max(found, key=lambda each: len(each.name))
    tool = exported[len(row.name) + len(_SEPARATOR) :]
    return Target(_spec(row, token_id), tool) if tool else None


def server_specs(gate: Gate, token_id: int | None) -> list[McpServerSpec]:
    """Return the usable enabled servers of a gate."""
    specs = []
    for row in gate.servers.filter(enabled=True).order_by("name"):
        try:
            specs.append(_spec(row, token_id))
        except ValueError as error:
            logger.warning("gate %s: %s", gate.name, error)
    return specs


def _spec(row: McpServer, token_id: int | None) -> McpServerSpec:
    """Return the spec of a server; people answer what it asks during a call of a gate.

    A stdio server has a process for each token, so that no agent finds what another one has left
    in its memory.
    """
    spec = replace(spec_of(row), elicits=True)
    return replace(spec, run=f"token-{token_id}") if spec.transport == "stdio" else spec


async def upstream_tools(specs: Iterable[McpServerSpec]) -> dict[str, list[types.Tool]]:
    """Return the tools that each server lists now; a server that does not answer is left out."""
    found = {}
    for spec in specs:
        try:
            found[spec.name] = await pool().listed_tools(spec)
        except TaskFailed as error:
            logger.warning("the gate cannot list the tools of %s: %s", spec.name, error)
    return found


def exported(gate: Gate, listed: Mapping[str, Iterable[types.Tool]]) -> list[types.Tool]:
    """Return the tools that the gate offers, as their servers describe them."""
    names = [f"{server}.{tool.name}" for server, tools in listed.items() for tool in tools]
    infos = tool_infos(gate, names)
    servers = list(McpServer.objects.filter(gates=gate, enabled=True))
    offered = []
    for server, tools in listed.items():
        for tool in tools:
            name, policy = exported_name(server, tool.name), infos[f"{server}.{tool.name}"].policy
            longest = max(
                (each.name for each in servers if name.startswith(f"{each.name}{_SEPARATOR}")),
                key=len,
                default=server,
            )
            if policy == GatePolicy.DENY or longest != server:
                continue
            meta = {**(tool.meta or {}), POLICY: policy.value}
            offered.append(tool.model_copy(update={"name": name, "meta": meta}))
    return offered
