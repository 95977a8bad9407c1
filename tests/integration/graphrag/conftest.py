"""A small catalogue and the collected public one."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from tests.integration.graphrag import fixtures

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
def public_catalogue(db: None) -> None:
    """Every collected tool of public MCP servers."""
    ingest.upsert_tools(fixtures.public_tools())


@pytest.fixture
def holdpoint(settings: Any) -> Callable[..., None]:
    """Override single keys of ``settings.HOLDPOINT``."""

    def override(**values: Any) -> None:
        settings.HOLDPOINT = {**getattr(django_settings, "HOLDPOINT", {}), **values}

    return override
