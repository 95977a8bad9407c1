"""Admin of the tool graph: people enable tools and choose permission sets, nothing else."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_form import ToolForm
from graphrag.graph import neighbours
from graphrag.models import LearnedExecution, Tool, ToolDependency


class NotAddedByHand:
    """Rows that only the system adds and deletes."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _change_page(tool: Tool) -> str:
    return reverse("admin:graphrag_tool_change", args=(tool.pk,))


class GoneFilter(admin.BooleanFieldListFilter):
    """By whether the tool's server no longer lists it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = gettext_lazy("gone from its server")


@admin.register(Tool)
class ToolAdmin(NotAddedByHand, admin.ModelAdmin[Tool]):
    """Enable and disable tools, and choose their permission sets."""

    empty_text = gettext_lazy(
        "A tool is what a task of a plan calls: add an MCP server and synchronize its tools."
    )
    form = ToolForm
    list_display = (
        "name", "kind", "permission_set", "read_only", "idempotent", "enabled", "rank"
    )  # fmt: skip
    list_filter = (
        "enabled", "kind", "server", "read_only", "permission_set", ("vanished", GoneFilter),
    )  # fmt: skip
    search_fields = ("name", "title", "description")
    list_per_page = 50
    show_full_result_count = False
    actions = ("enable", "disable")
    readonly_fields = (
        "name", "kind", "server", "title", "description", "input_schema", "output_schema",
        "read_only", "idempotent", "destructive", "open_world", "permission_set_by_hand",
        "vanished", "embedder", "rank", "created_at", "updated_at",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("name", "title", "description", "enabled", "permission_set",
                           "set_read_only", "set_destructive")}),
        ("Properties", {"fields": ("kind", "server", "read_only", "idempotent", "destructive",
                                   "open_world", "input_schema", "output_schema")}),
        ("Statistics", {"fields": ("rank", "embedder", "permission_set_by_hand", "vanished",
                                      "created_at", "updated_at")}),
    )  # fmt: skip

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the SVG of the tool and its neighbours."""
        tool = kwargs.get("obj")
        if tool is not None:
            context["around"] = neighbours.neighbourhood(tool, _change_page)
        return super().render_change_form(request, context, *args, **kwargs)

    def view_on_site(self, obj: Tool) -> str:
        """The tool's page on the desk."""
        return reverse("reviews:tool", args=(obj.name,))

    @admin.display(description="PageRank", ordering="pagerank")
    def rank(self, tool: Tool) -> str:
        """PageRank in multiples of the average tool's."""
        return f"{tool.pagerank:.2f}\N{MULTIPLICATION SIGN}"

    def save_model(self, request: HttpRequest, obj: Tool, form: Any, change: Any) -> None:
        """Store only what the person changed, as a choice that later syncs respect."""
        form.save_policy()

    @admin.action(description="Enable the selected tools", permissions=["change"])
    def enable(self, request: HttpRequest, queryset: Any) -> None:
        """Let plans use the selected tools again."""
        self._switch(request, queryset, enabled=True)

    @admin.action(description="Disable the selected tools", permissions=["change"])
    def disable(self, request: HttpRequest, queryset: Any) -> None:
        """Exclude the selected tools from new plans."""
        self._switch(request, queryset, enabled=False)

    def _switch(self, request: HttpRequest, queryset: Any, *, enabled: bool) -> None:
        names = list(queryset.values_list("name", flat=True))
        for name in names:
            ingest.set_tool_policy(name=name, enabled=enabled)
        state = "enabled" if enabled else "disabled"
        self.message_user(request, f"{len(names)} tools {state}.")


class ReadOnly(NotAddedByHand):
    """Rows that only the system changes."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(ToolDependency)
class ToolDependencyAdmin(ReadOnly, admin.ModelAdmin[ToolDependency]):
    """Which tool followed which in real runs."""

    empty_text = gettext_lazy(
        "A dependency says which tool followed which in real runs: it is learned when a run "
        "completes."
    )
    list_display = ("from_tool", "to_tool", "observed_count", "confidence", "last_seen_at")
    list_select_related = ("from_tool", "to_tool")
    search_fields = ("from_tool__name", "to_tool__name")
    ordering = ("-observed_count", "id")
    show_full_result_count = False


@admin.register(LearnedExecution)
class LearnedExecutionAdmin(ReadOnly, admin.ModelAdmin[LearnedExecution]):
    """Executions that have been learned, with the resulting edges."""

    empty_text = gettext_lazy(
        "A learned execution has improved the ranking of tools: it appears here after a run "
        "completes."
    )
    list_display = ("execution_key", "learned_at")
    search_fields = ("execution_key",)
    show_full_result_count = False
