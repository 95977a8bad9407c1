"""The catalogue of tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from graphrag.catalogue import tools as all_tools
from graphrag.models import Tool
from graphrag.records import ToolRecord
from graphrag.retrieval import search

from .common import page, text_of

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
    return page(request, "reviews/tools.html", context, section="tools")


def _row(tool: Tool | ToolRecord) -> dict[str, Any]:
    return {
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
