"""One tool with the graph around it, and what a run taught the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from graphrag.graph.neighbours import Taught, around, taught_by
from graphrag.models import Tool
from reviews.components import labels as components_labels
from reviews.components.number_formatting import decimal, percent
from reviews.components.tables import Row, Table
from workflows.engine.status import ExecutionStatus
from workflows.models import Execution, ExecutionEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def tool_context(user: User, tool: Tool) -> dict[str, Any]:
    """`tool` of the template."""
    may_look = user.is_staff and user.has_perm("graphrag.view_tool")
    return {
        "around": around(tool, _address),
        "embedder": tool.embedder,
        "marks": tuple(_marks(tool)),
        "admin_url": reverse("admin:graphrag_tool_change", args=(tool.pk,)) if may_look else "",
    }


def _address(tool: Tool) -> str:
    return tool_url(tool.name)


def tool_url(name: str) -> str:
    """The page of a tool; "" for a name that no address can carry."""
    try:
        return reverse("reviews:tool", args=(name,))
    except NoReverseMatch:
        return ""


def _marks(tool: Tool) -> list[str]:
    marks = [tool.get_kind_display(), _("permission set %(name)s") % {"name": tool.permission_set}]
    marks += [_("reads only")] if tool.read_only else []
    marks += [_("may be repeated")] if tool.idempotent else []
    if tool.vanished:
        marks.append(_("missing: its server no longer lists it"))
    elif not tool.enabled:
        marks.append(_("disabled"))
    return marks


def learned_context(execution: Execution) -> dict[str, Any]:
    """What the graph took from a run, or why it took nothing."""
    taught = taught_by(str(execution.pk))
    return {
        "title": components_labels.run_title(execution.title, execution.pk),
        "run_url": reverse("reviews:run", args=(execution.pk,)),
        "taught": taught,
        "sentence": _sentence(taught) if taught else "",
        "tables": (_pairs(taught), _ranks(taught)) if taught else (),
        "nothing": "" if taught else _why_nothing(execution),
    }


def _sentence(taught: Taught) -> str:
    new = sum(edge.new for edge in taught.edges)
    seen = len(taught.edges) - new
    if not taught.edges:
        return _("No tool followed another one in this run, so there was nothing to learn.")
    parts = []
    if new:
        text = ngettext(
            "%(n)s pair of tools seen for the first time",
            "%(n)s pairs of tools seen for the first time",
            new,
        )
        parts.append(text % {"n": new})
    if seen:
        text = ngettext("%(n)s pair seen again", "%(n)s pairs seen again", seen)
        parts.append(text % {"n": seen})
    return f"{', '.join(parts)}."


def _pairs(taught: Taught) -> Table:
    """Which tool came after which, and in how many runs so far."""
    return Table(
        key="edges-title",
        heading=_("What followed what"),
        first=_("After → came"),
        columns=(_("Runs"), _("Confidence")),
        rows=tuple(
            Row(
                links=tuple((name, tool_url(name)) for name in (edge.from_tool, edge.to_tool)),
                tag=_("new") if edge.new else "",
                cells=(edge.count, decimal(edge.confidence, 2)),
            )
            for edge in taught.edges
        ),
        is_code=True,
    )


def _ranks(taught: Taught) -> Table:
    """How central the tools became."""
    return Table(
        key="ranks-title",
        heading=_("How central the tools are now"),
        note=_("PageRank, as multiples of the average tool's."),
        first=_("Tool"),
        columns=(_("Before"), _("After"), _("Change")),
        rows=tuple(
            Row(
                links=((rank.tool, tool_url(rank.tool)),),
                cells=(decimal(rank.before, 3), decimal(rank.after, 3), _moved(rank.change)),
            )
            for rank in taught.ranks
        ),
        is_code=True,
    )


def _moved(share: float) -> str:
    if abs(share) < 0.0005:
        return _("as before")
    sign = "+" if share > 0 else "\N{MINUS SIGN}"
    return f"{sign}{percent(abs(share), 1)}"


def _why_nothing(execution: Execution) -> str:
    if execution.status != ExecutionStatus.COMPLETED:
        return _("The graph learns from runs that completed; this one has not.")
    failed = ExecutionEvent.objects.filter(execution=execution, kind="graph_update_failed").last()
    if failed is not None:
        error = failed.payload.get("error", "")
        return _("The graph could not be brought up to date: %(error)s") % {"error": error}
    return _("The graph learns in the background, a few seconds after a run has completed.")
