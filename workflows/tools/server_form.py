"""The form of an MCP server and the import of several, for the admin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django import forms

from workflows.common.json_fields import BoundedJSONField, JSONTextarea
from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.executions.validation import InvalidRequest
from workflows.models import McpServer

from . import mcp_servers

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    FormBase = forms.ModelForm[McpServer]
else:
    FormBase = forms.ModelForm


_KEEPS = (
    f'Values are encrypted and never shown again; "{mcp_servers.STORED}" keeps the one that is'
    " stored. Enter values again when you change the"
)
_SECRETS = ("env", "headers")


class McpServerForm(FormBase):
    """Connection settings of a server, validated like the MCP client does."""

    args = BoundedJSONField(
        label="Arguments",
        required=False,
        empty=[],
        widget=JSONTextarea({"rows": 4}),
        help_text='A list: ["--repository", "/srv/project"]. $RUN_FOLDER is the folder of the run.',
    )
    env = BoundedJSONField(
        label="Environment",
        required=False,
        widget=JSONTextarea({"rows": 4}),
        help_text=f"Environment of the process, name to value. {_KEEPS} command or its args.",
    )
    read_paths = BoundedJSONField(
        label="Folders to read",
        required=False,
        empty=[],
        widget=JSONTextarea({"rows": 2}),
        help_text="What a stdio server reads besides programs and the folder of its run: a list.",
    )
    write_paths = BoundedJSONField(
        label="Folders to write",
        required=False,
        empty=[],
        widget=JSONTextarea({"rows": 2}),
        help_text="What it reads and writes besides the folder of its run: a list.",
    )
    tcp_ports = BoundedJSONField(
        label="TCP ports",
        required=False,
        empty=[],
        widget=JSONTextarea({"rows": 2}),
        help_text="Ports that it connects to: [443]. Without any, it has no network.",
    )
    headers = BoundedJSONField(
        required=False,
        widget=JSONTextarea({"rows": 4}),
        help_text=f"Sent with every request over HTTP. {_KEEPS} URL.",
    )

    confirmed: bool = False
    """Whether the user entered a second factor recently; set for each request."""
    is_superuser: bool = False
    """Whether the user may set a command; set for each request."""

    class Meta:
        model = McpServer
        fields = mcp_servers.FIELDS
        labels = {"url": "URL"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _SECRETS if self.instance.pk else ():
            self.initial[name] = dict.fromkeys(getattr(self.instance, name), mcp_servers.STORED)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        stored = self._stored()
        if not self.is_superuser and mcp_servers.runs_command(cleaned, stored):
            self.add_error("transport", str(mcp_servers.SuperuserNeeded()))
        if self.errors:
            return cleaned
        try:
            fields = mcp_servers.with_stored_values(cleaned, stored)
            problems = mcp_servers.server_problems(fields)
        except InvalidRequest as invalid:
            problems = invalid.problems
        for problem in problems:
            self.add_error(problem.path, problem.message)
        if self.errors or self.confirmed:
            return cleaned
        if mcp_servers.needs_confirmation(fields, stored):
            self.add_error(None, str(mcp_servers.ConfirmationNeeded()))
        return cleaned

    def _stored(self) -> McpServer | None:
        return McpServer.objects.get(pk=self.instance.pk) if self.instance.pk else None

    def save_for(self, actor: User) -> McpServer:
        """Save the valid form as `actor`."""
        return mcp_servers.save_server(
            actor=actor,
            fields={name: self.cleaned_data[name] for name in mcp_servers.FIELDS},
            confirmed=self.confirmed,
            by_token=False,
            server=self._stored(),
        )


def import_text(
    *, actor: User, text: str, confirmed: bool
) -> tuple[Sequence[McpServer], tuple[str, ...]]:
    """Create the servers of a `mcpServers` object written as JSON; return them, or the errors."""
    try:
        made = mcp_servers.import_servers(actor=actor, data=parse(text), confirmed=confirmed)
    except BoundedJSONError as error:
        return (), (str(error),)
    except InvalidRequest as invalid:
        return (), tuple(f"{each.path}: {each.message}" for each in invalid.problems)
    except (mcp_servers.SuperuserNeeded, mcp_servers.ConfirmationNeeded) as needed:
        return (), (str(needed),)
    return made, ()
