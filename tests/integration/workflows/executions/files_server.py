"""A real MCP server for files below a folder: lists them, reads JSON, reads XML."""

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
server = MCPServer("files")


class Listing(BaseModel):
    """Names of the files in a folder."""

    files: list[str]


class Parsed(BaseModel):
    """A file's content as a value."""

    path: str
    value: Any


def below(path: str) -> Path:
    """A path below the folder that the program was started for."""
    root = Path(sys.argv[1]).resolve()
    found = (root / path).resolve()
    if not found.is_relative_to(root):
        raise ValueError(f"{path} is outside")
    return found


@server.tool(annotations=READS)
def list_folder(path: str) -> Listing:
    """List the names of the files in a folder."""
    return Listing(files=sorted(each.name for each in below(path).iterdir() if each.is_file()))


@server.tool(annotations=READS)
def parse_json_file(path: str) -> Parsed:
    """Parse a JSON file and return its value."""
    return Parsed(path=path, value=json.loads(below(path).read_text()))


@server.tool(annotations=READS)
def parse_xml_file(path: str) -> Parsed:
    """Parse an XML file and return its elements, attributes and text."""
    root = ET.fromstring(below(path).read_text())
    return Parsed(path=path, value={"tag": root.tag, "texts": [each.text for each in root]})


if __name__ == "__main__":
    server.run("stdio")
