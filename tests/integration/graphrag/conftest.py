"""A small catalogue and a large one, both invented."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from tests.support.invented_tools import invented_tools

STRING = {"type": "string"}
MakeTool = Callable[..., ToolRecord]


def make_tool(name: str, description: str = "", **more: Any) -> ToolRecord:
    """A Python tool of the server its name begins with; ``required`` names its arguments."""
    properties = more.pop("properties", {})
    required = more.pop("required", list(properties))
    schema = {"type": "object", "properties": properties, "required": required}
    values = {"kind": "python", "server": name.split(".")[0], "input_schema": schema}
    return ToolRecord(name=name, description=description, **{**values, **more})


def gives(**properties: Any) -> dict[str, Any]:
    """An output schema with these properties."""
    return {"type": "object", "properties": properties}


@pytest.fixture
def files_catalogue(db: None) -> list[ToolRecord]:
    """Tools for files, of the kind the product ships."""
    path = {"path": STRING}
    tools = [
        make_tool(
            "files.list_directory",
            "List the files and directories in a folder.",
            properties=path,
            output_schema=gives(path=STRING, files={"type": "array", "items": STRING}),
            read_only=True,
        ),
        make_tool(
            "files.read_file",
            "Read a UTF-8 text file and return its content.",
            properties=path,
            output_schema=gives(path=STRING, content=STRING),
            read_only=True,
        ),
        make_tool(
            "files.parse_xml",
            "Parse an XML document into nested objects.",
            properties={"text": STRING},
            read_only=True,
        ),
        make_tool(
            "files.parse_json",
            "Parse a JSON document.",
            properties={"text": STRING},
            read_only=True,
        ),
        make_tool(
            "files.write_file",
            "Write text into a file.",
            properties={**path, "content": STRING},
        ),
    ]
    ingest.upsert_tools(tools)
    return tools


@pytest.fixture
def large_catalogue(db: None) -> None:
    """264 invented tools of one server, and four of others."""
    listed = [
        make_tool(
            f"records.{tool['name']}",
            tool["description"],
            properties=tool["inputSchema"]["properties"],
            read_only=tool["annotations"]["readOnlyHint"],
        )
        for tool in invented_tools()
    ]
    others = [
        make_tool(
            "clock.current_time",
            "Return the current time in a timezone.",
            properties={"timezone": STRING},
            read_only=True,
        ),
        make_tool(
            "web.fetch",
            "Fetch a URL and return its content as Markdown.",
            properties={"url": {"type": "string", "format": "uri"}},
            read_only=True,
        ),
        make_tool(
            "repository.compare_branches",
            "Compare two branches, or a branch and the working tree.",
            properties={"repo_path": STRING, "target": STRING},
            read_only=True,
        ),
        make_tool(
            "repository.stage_files",
            "Stage the contents of files for the next commit.",
            properties={"repo_path": STRING, "files": {"type": "array", "items": STRING}},
        ),
    ]
    ingest.upsert_tools([*listed, *others])


@pytest.fixture
def holdpoint(settings: Any) -> Callable[..., None]:
    """Override single keys of ``settings.HOLDPOINT``."""

    def override(**values: Any) -> None:
        settings.HOLDPOINT = {**getattr(django_settings, "HOLDPOINT", {}), **values}

    return override
