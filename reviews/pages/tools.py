"""One tool with the graph around it, and what a run taught the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from graphrag.models import Tool
from graphrag.neighbours import Taught, around, taught_by
from reviews.counting import decimal, percent
from workflows.engine.status import ExecutionStatus
from workflows.models import Execution, ExecutionEvent

from . import words

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
        "title": words.run_title(execution.title, execution.pk),
        "run_url": reverse("reviews:run", args=(execution.pk,)),
        "taught": taught,
        "sentence": _sentence(taught) if taught else "",
        "edges": tuple(_edge(each) for each in taught.edges) if taught else (),
        "ranks": tuple(_rank(each) for each in taught.ranks) if taught else (),
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


def _edge(edge: Any) -> dict[str, Any]:
    return {
        "from_tool": edge.from_tool,
        "from_url": tool_url(edge.from_tool),
        "to_tool": edge.to_tool,
        "to_url": tool_url(edge.to_tool),
        "count": edge.count,
        "confidence": decimal(edge.confidence, 2),
        "new": edge.new,
    }


def _rank(rank: Any) -> dict[str, Any]:
    share = rank.change
    moved = abs(share) >= 0.0005
    return {
        "tool": rank.tool,
        "url": tool_url(rank.tool),
        "before": decimal(rank.before, 3),
        "after": decimal(rank.after, 3),
        "change": _moved(share) if moved else _("as before"),
    }


def _moved(share: float) -> str:
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
