"""Built-in tools that turn text into JSON values."""

from __future__ import annotations

from typing import Annotated, Any
from xml.parsers import expat

from pydantic import Field
from typing_extensions import TypedDict

from workflows.engine.values.bounded_json import BoundedJSONError
from workflows.engine.values.bounded_json import parse as parse_document

from .registry import tool
from .root_directory import permanent_failure

#: Limits of XML: characters, elements, depth. An element takes two levels of the JSON result:
#: itself and its list of children.
MAX_XML_CHARS = 1_000_000
MAX_ELEMENTS = 2_000
MAX_DEPTH = 30


@tool(read_only=True, idempotent=True, title="Parse JSON")
def parse_json(
    text: Annotated[str, Field(description="A JSON document, such as a file's content.")],
) -> Any:
    """Parse a JSON document into a value that later tasks can select from.

    Strict: no duplicate keys, no NaN or infinity, bounded in size and depth.
    """
    try:
        return parse_document(text)
    except BoundedJSONError as error:
        raise permanent_failure(f"the JSON document is refused: {error}") from None


class Element(TypedDict):
    """One XML element; names keep their prefix, `text` is the element's own, trimmed."""

    tag: str
    attributes: dict[str, str]
    text: str
    children: list[Element]


class _Builder:
    """Builds nested elements from expat's callbacks, within the limits."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[tuple[Element, list[str]]] = []
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise permanent_failure(f"the XML has more than {MAX_ELEMENTS} elements")
        if len(self._open) >= MAX_DEPTH:
            raise permanent_failure(f"the XML is nested deeper than {MAX_DEPTH} elements")
        element = Element(tag=tag, attributes=attributes, text="", children=[])
        if self._open:
            self._open[-1][0]["children"].append(element)
        self._open.append((element, []))

    def text(self, data: str) -> None:
        self._open[-1][1].append(data)

    def end(self, _tag: str) -> None:
        element, pieces = self._open.pop()
        element["text"] = "".join(pieces).strip()
        self.root = element


def _refuse_dtd(*_details: object) -> None:
    raise permanent_failure("the XML has a document type declaration, which is not accepted")


@tool(read_only=True, idempotent=True, title="Parse XML")
def parse_xml(
    text: Annotated[str, Field(max_length=MAX_XML_CHARS, description="An XML document.")],
) -> Element:
    """Parse an XML document into nested objects with tag, attributes, text and children.

    Document type declarations and entities of the document's own are refused, so it can neither
    read files nor expand without bounds.
    """
    builder = _Builder()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_dtd
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    try:
        parser.Parse(text.encode("utf-8"), True)  # noqa: FBT003 - positional only
    except expat.ExpatError as error:
        raise permanent_failure(f"not well-formed XML: {error}") from None
    if builder.root is None:
        raise permanent_failure("the XML has no root element")
    return builder.root
