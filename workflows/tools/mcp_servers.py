"""Add, change, import and delete MCP servers: REST and the admin call these functions.

A stdio server is a command that workers start, so a person who sets it runs code. Callers check the
role; the confirmation by a second factor is checked here. Each change is logged by the names of
its fields, never with values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from workflows import conf
from workflows.common.http_headers import headers_problem
from workflows.engine.plans.validation import Problem
from workflows.executions.layer_runner import spec_of
from workflows.executions.validation import InvalidRequest
from workflows.models import McpServer
from workflows.security_events.services import log_change

from . import catalogue_sync
from .mcp_client import address_problem, env_problem, paths_problem, ports_problem

if TYPE_CHECKING:
    from django.contrib.auth.models import User

FIELDS: Final = (
    "name", "enabled", "transport", "command", "args", "env", "read_paths", "write_paths",
    "tcp_ports", "url", "headers",
)  # fmt: skip
#: Fields that decide which program a worker starts, and what it reaches.
_PROGRAM: Final = frozenset(
    {
        *("transport", "command", "args", "env", "enabled", "name"),
        *("read_paths", "write_paths", "tcp_ports"),
    }
)
#: Keys of a server in a `mcpServers` object that are stored.
_IMPORTED: Final = (
    "command", "args", "env", "read_paths", "write_paths", "tcp_ports", "url", "headers",
)  # fmt: skip
_MAX_SERVERS: Final = 50
#: Stands for a stored value, which is never shown; saving it keeps the value.
STORED: Final = "(stored)"
#: Stored secrets, and the fields that decide who receives them.
_RECEIVERS: Final = {"env": ("command", "args"), "headers": ("url",)}


class ConfirmationNeeded(Exception):
    """The change sets a command, and the second factor was not entered recently."""

    def __init__(self) -> None:
        super().__init__("A stdio server runs a command. Confirm with your code first.")


class SuperuserNeeded(Exception):
    """The change is for superusers: it decides which program a worker starts."""

    def __init__(self) -> None:
        super().__init__(
            "Only a superuser who is signed in can add or change a stdio server: it runs a command "
            "as the account of the workers. No token can."
        )


def server_problems(fields: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Return what is wrong with the connection settings of a server; all of FIELDS are given."""
    problems = [
        Problem(name, "invalid", "must be a text")
        for name in ("name", "transport", "command", "url")
        if not isinstance(fields[name], str)
    ]
    args = fields["args"]
    problems += [
        Problem(name, "invalid", "must be a list of texts")
        for name in ("args", "read_paths", "write_paths")
        if not _is_list_of(str, fields[name])
    ]
    if not _is_list_of(int, fields["tcp_ports"]):
        problems.append(Problem("tcp_ports", "invalid", "must be a list of numbers"))
    for name in ("env", "headers"):
        value = fields[name]
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            problems.append(Problem(name, "invalid", "must be an object whose values are texts"))
    if problems:
        return tuple(problems)
    row = McpServer(**{name: fields[name] for name in FIELDS})
    try:
        row.full_clean(exclude=("env", "headers"), validate_unique=False)
    except ValidationError as error:
        return tuple(
            Problem(name, "invalid", " ".join(texts)) for name, texts in error.message_dict.items()
        )
    for name, text in (
        ("env", env_problem(fields["env"])),
        ("headers", headers_problem(fields["headers"])),
        ("args", "a NUL cannot be passed to a program" if "\0" in "".join(args) else ""),
        ("read_paths", paths_problem(fields["read_paths"], "read")),
        ("write_paths", paths_problem(fields["write_paths"], "write")),
        ("tcp_ports", ports_problem(fields["tcp_ports"])),
    ):
        if text:
            return (Problem(name, "invalid", text),)
    is_stdio = fields.get("transport") == McpServer.Transport.STDIO
    try:
        spec_of(row)
    except ValueError as error:
        return (Problem("command" if is_stdio else "url", "invalid", str(error)),)
    text = "" if is_stdio else address_problem(fields["url"])
    return (Problem("url", "invalid", text),) if text else ()


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is kind for each in value)


def with_stored_values(fields: Mapping[str, Any], server: McpServer | None) -> dict[str, Any]:
    """Return all of FIELDS: the given ones, and the others as `server` has them.

    A value STORED in `env` or `headers` becomes the stored one, which goes only to the command or
    the address that it was entered for.

    Raises InvalidRequest.
    """
    row = server or McpServer()
    whole = {name: getattr(row, name) for name in FIELDS} | dict(fields)
    problems = []
    for name, receivers in _RECEIVERS.items():
        stored, given = getattr(row, name), whole[name]
        if not isinstance(given, dict):
            continue  # `server_problems` says so
        kept = [key for key, text in given.items() if name not in fields or text == STORED]
        changed = [each for each in receivers if whole[each] != getattr(row, each)]
        unknown = [key for key in kept if key not in stored]
        if unknown:
            message = f"{', '.join(unknown)} has no stored value: enter one"
            problems.append(Problem(name, "invalid", message))
        elif kept and changed:
            message = (
                f"enter {', '.join(kept)} again, or remove it: a stored value is not sent on when "
                f"{' or '.join(changed)} changes"
            )
            problems.append(Problem(name, "enter_again", message))
        whole[name] = given | {key: stored[key] for key in kept if key in stored}
    if problems:
        raise InvalidRequest(tuple(problems))
    return whole


def needs_confirmation(fields: Mapping[str, Any], server: McpServer | None) -> bool:
    """Whether saving these fields sets a command, and the settings ask for a second factor."""
    if conf.step_up() == "off" or fields["transport"] != McpServer.Transport.STDIO:
        return False
    if server is None:
        return True
    return any(getattr(server, name) != fields[name] for name in _PROGRAM if name in fields)


def runs_command(fields: Mapping[str, Any], server: McpServer | None) -> bool:
    """Whether a server with these fields is a stdio server, or `server` was one before."""
    is_stdio = fields.get("transport") == McpServer.Transport.STDIO
    return is_stdio or (server is not None and server.transport == McpServer.Transport.STDIO)


def save_server(
    *,
    actor: User,
    fields: Mapping[str, Any],
    confirmed: bool,
    by_token: bool,
    server: McpServer | None = None,
) -> McpServer:
    """Create a server, or change the given fields of `server`, and log the change.

    Stored values are kept as `with_stored_values` says.
    `confirmed`: the actor entered a code recently, or acts with a token that may do without.
    Raises InvalidRequest or ConfirmationNeeded, and SuperuserNeeded for a stdio server unless the
    actor is a superuser without a token.
    """
    whole = with_stored_values(fields, server)
    if problems := server_problems(whole):
        raise InvalidRequest(problems)
    others = McpServer.objects.exclude(pk=server.pk) if server else McpServer.objects.all()
    taken = InvalidRequest((Problem("name", "taken", "is the name of another server"),))
    if others.filter(name=whole["name"]).exists():
        raise taken
    if runs_command(whole, server) and (by_token or not actor.is_superuser):
        raise SuperuserNeeded
    if not confirmed and needs_confirmation(whole, server):
        raise ConfirmationNeeded
    changed = [name for name in FIELDS if server is None or getattr(server, name) != whole[name]]
    row = server or McpServer()
    for name in changed:
        setattr(row, name, whole[name])
    try:
        with transaction.atomic():
            row.save()
            if server is None:
                log_change(actor=actor, row=row, flag=ADDITION, message=[{"added": {}}])
            elif changed:
                message = [{"changed": {"fields": changed}}]
                log_change(actor=actor, row=row, flag=CHANGE, message=message)
    except IntegrityError:
        # Another request has stored the name since the check.
        raise taken from None
    catalogue_sync.retire_servers()
    return row


def delete_server(*, actor: User, server: McpServer) -> None:
    """Delete a server and log it; its tools become missing."""
    with transaction.atomic():
        log_change(actor=actor, row=server, flag=DELETION)
        server.delete()
    catalogue_sync.retire_servers()


def parse_import(data: Any) -> Sequence[dict[str, Any]]:
    """Return the fields of each server of a `mcpServers` object, as other clients write it.

    Raises InvalidRequest.
    """
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict) or not servers or len(servers) > _MAX_SERVERS:
        message = f"must be an object with 1 to {_MAX_SERVERS} servers"
        raise InvalidRequest((Problem("mcpServers", "invalid", message),))
    rows, problems = [], []
    for name, entry in servers.items():
        if not isinstance(entry, dict):
            problems.append(Problem(f"mcpServers.{name}", "invalid", "must be an object"))
            continue
        fields = {
            "name": name,
            "enabled": not entry.get("disabled", False),
            "transport": "http" if "url" in entry else "stdio",
            **{key: entry[key] for key in _IMPORTED if key in entry},
        }
        problems += [
            Problem(f"mcpServers.{name}.{each.path}", each.code, each.message)
            for each in _new_server_problems(fields)
        ]
        rows.append(fields)
    if problems:
        raise InvalidRequest(tuple(problems))
    return rows


def _new_server_problems(fields: Mapping[str, Any]) -> tuple[Problem, ...]:
    try:
        return server_problems(with_stored_values(fields, None))
    except InvalidRequest as invalid:
        return invalid.problems


def import_servers(*, actor: User, data: Any, confirmed: bool) -> list[McpServer]:
    """Create every server of a `mcpServers` object, or none, for a person who is signed in.

    Raises what `save_server` raises.
    """
    rows = parse_import(data)
    with transaction.atomic():
        return [
            save_server(actor=actor, fields=each, confirmed=confirmed, by_token=False)
            for each in rows
        ]
