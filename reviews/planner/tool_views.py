"""The catalogue of tools, one tool, and what a run taught about tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from graphrag.catalogue.selectors import tools as all_tools
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool
from graphrag.retrieval.search import search
from reviews.components.views import page, person, text_of, visible_execution
from reviews.planner.tools_page import learned_context, tool_context

_FOUND = 30
_LISTED = 1000


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """Every tool by name, or those that fit a description of what is to be done."""
    q = text_of(request, "q")
    rows: Iterable[Tool | ToolRecord] = all_tools()[:_LISTED]
    if q:
        rows = [found.tool for found in search(q, limit=_FOUND).found]
    context = {
        "rows": tuple(_row(tool) for tool in rows),
        "q": q,
        "next_url": "",
        "previous_url": "",
        "page_words": "",
    }
    return page(request, "reviews/planner/tools.html", context, section="tools")


@login_required
@require_safe
def tool(request: HttpRequest, name: str) -> HttpResponse:
    """One tool: what it takes and gives, what came before and after it in real runs."""
    found = all_tools().filter(name=name).first() if "\0" not in name else None
    if found is None:
        raise Http404
    context = {"tool": tool_context(person(request), found), "row": _row(found)}
    return page(request, "reviews/planner/tool.html", context, section="tools")


@login_required
@require_safe
def learned(request: HttpRequest, execution_id: int) -> HttpResponse:
    """What the tool graph took from one run."""
    execution = visible_execution(request, execution_id)
    context = learned_context(execution)
    return page(request, "reviews/planner/learned.html", context, section="runs")


def _row(tool: Tool | ToolRecord) -> dict[str, Any]:
    return {
        "url": reverse("reviews:tool", args=(tool.name,)),
        "name": tool.name,
        "description": tool.description,
        "kind": tool.kind,
        "permission_set": tool.permission_set,
        "read_only": tool.read_only,
        "missing": not tool.enabled,
        "input_json": json.dumps(tool.input_schema, indent=2, ensure_ascii=False),
        "output_json": json.dumps(tool.output_schema, indent=2, ensure_ascii=False)
        if tool.output_schema
        else "",
    }
