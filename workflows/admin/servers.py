"""Admin of MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from workflows.common.http_headers import headers_problem
from workflows.executions.layer_runner import spec_of
from workflows.models import McpServer
from workflows.tools import catalogue_sync

from .json_fields import BoundedJSONField

if TYPE_CHECKING:
    FormBase = forms.ModelForm[McpServer]
    Base = admin.ModelAdmin[McpServer]
else:
    FormBase = forms.ModelForm
    Base = admin.ModelAdmin


#: Placeholder for a stored value, which is never shown.
STORED = "(stored)"
_KEEPS = f'Values are encrypted and never shown again; "{STORED}" keeps the one that is stored.'
_SECRETS = ("env", "headers")
_FIELDS = ("name", "enabled", "transport", "command", "args", "env", "url", "headers")


class McpServerForm(FormBase):
    """Connection settings of a server, validated like the MCP client does."""

    args = BoundedJSONField(required=False, empty=[], help_text='A list: ["--repository", "."]')
    env = BoundedJSONField(
        required=False, help_text=f"Environment of the process, name to value. {_KEEPS}"
    )
    headers = BoundedJSONField(
        required=False, help_text=f"Sent with every request over HTTP. {_KEEPS}"
    )

    class Meta:
        model = McpServer
        fields = _FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stored: dict[str, dict[str, str]] = {}
        if self.instance.pk:
            for name in _SECRETS:
                self._stored[name] = dict(getattr(self.instance, name))
                self.initial[name] = dict.fromkeys(self._stored[name], STORED)

    def clean_args(self) -> Any:
        args = self.cleaned_data["args"]
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            raise forms.ValidationError("must be a list of texts")
        return args

    def clean_env(self) -> Any:
        return self._with_stored("env")

    def _with_stored(self, field: str) -> Any:
        """Return the entered values, with stored values in place of the placeholder."""
        entered = _texts(self.cleaned_data[field])
        stored = self._stored.get(field, {})
        unknown = [name for name, text in entered.items() if text == STORED and name not in stored]
        if unknown:
            raise forms.ValidationError(f"{', '.join(unknown)} has no stored value: enter one")
        return {name: stored[name] if text == STORED else text for name, text in entered.items()}

    def clean_headers(self) -> Any:
        headers = self._with_stored("headers")
        problem = headers_problem(headers)
        if problem:
            raise forms.ValidationError(problem)
        return headers

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                spec_of(McpServer(**{name: cleaned[name] for name in _FIELDS}))
            except ValueError as error:
                stdio = cleaned["transport"] == McpServer.Transport.STDIO
                self.add_error("command" if stdio else "url", str(error))
        return cleaned


def _texts(value: Any) -> Any:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise forms.ValidationError("must be an object whose values are texts")
    return value


@admin.register(McpServer)
class McpServerAdmin(Base):
    """Servers, and an action that synchronizes their tools."""

    form = McpServerForm
    list_display = ("name", "transport", "enabled", "synced_at", "sync_error")
    list_filter = ("transport", "enabled")
    search_fields = ("name", "command", "url")
    readonly_fields = ("synced_at", "sync_error", "env_names", "header_names")
    actions = ("sync_tools",)

    def get_fields(self, request: HttpRequest, obj: McpServer | None = None) -> list[Any]:
        """Show only the names of variables and headers to users who cannot change the server."""
        env, headers = "env", "headers"
        if not self.has_change_permission(request, obj) and obj is not None:
            env, headers = "env_names", "header_names"
        known = ["name", "enabled", "transport", "command", "args", env, "url", headers]
        return [*known, "synced_at", "sync_error"] if obj is not None else known

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: Any) -> None:
        """Retire the tools of a disabled server; the sweeper synchronizes a new one."""
        super().save_model(request, obj, form, change)
        catalogue_sync.retire_servers()

    def delete_model(self, request: HttpRequest, obj: McpServer) -> None:
        super().delete_model(request, obj)
        catalogue_sync.retire_servers()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[McpServer]) -> None:
        super().delete_queryset(request, queryset)
        catalogue_sync.retire_servers()

    @admin.display(description="env")
    def env_names(self, server: McpServer) -> str:
        return ", ".join(server.env) or "-"

    @admin.display(description="headers")
    def header_names(self, server: McpServer) -> str:
        return ", ".join(server.headers) or "-"

    @admin.action(description="Sync tools now", permissions=["change"])
    def sync_tools(self, request: HttpRequest, queryset: QuerySet[McpServer]) -> None:
        """Synchronize the tools of the selected servers into the catalogue."""
        for server in queryset:
            synced = catalogue_sync.sync_server(server)
            if synced.error:
                text = f"Could not read {synced.server}: {synced.error}"
                self.message_user(request, text, messages.ERROR)
            else:
                text = f"Read {synced.tools} tools of {synced.server}."
                self.message_user(request, text, messages.SUCCESS)
