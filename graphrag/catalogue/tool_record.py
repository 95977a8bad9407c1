"""A tool as a frozen value, independent of its database row."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphrag import actions, models, tokenizer

MAX_DESCRIPTION = 20_000
MAX_SCHEMA_BYTES = 256 * 1024
#: The key of a reference in plan syntax. As a parameter it would turn the arguments into one.
_REFERENCE = "$from"
_MAX_BODY = 3_000
_MIN_SENTENCE_CHARACTERS = 12
_MAX_SENTENCE_LENGTH = 300
_SENTENCE_END = re.compile(r"[.!?:;](?=\s|$)")


class InvalidTool(ValueError):
    """Raised for a tool that cannot be stored; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """One tool. ``name`` is ``server.tool``; schemas are JSON Schema objects.

    ``enabled`` applies when the tool is first stored; later only a person, or a listing of the
    server without the tool, changes it. A sync keeps a ``permission_set`` that a person chose.
    """

    name: str
    kind: str
    server: str
    description: str = ""
    title: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    permission_set: str = "minimal"
    read_only: bool = False
    idempotent: bool = False
    destructive: bool | None = None
    open_world: bool | None = None
    enabled: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the required arguments."""
        names = self.input_schema.get("required", ())
        return tuple(str(name) for name in names) if isinstance(names, list | tuple) else ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Argument name -> its JSON Schema."""
        found = self.input_schema.get("properties", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def can_destroy(self) -> bool:
        """Whether a person must review each task with the tool."""
        return actions.can_destroy(
            own_name(self),
            kind=self.kind,
            read_only=self.read_only,
            destructive=self.destructive,
        )

    @property
    def is_open_world(self) -> bool:
        """Whether calls may reach systems that the server does not control; MCP's default."""
        return self.kind == "mcp" if self.open_world is None else self.open_world


CONTENT_FIELDS = (
    "kind",
    "server",
    "title",
    "description",
    "input_schema",
    "output_schema",
    "read_only",
    "idempotent",
    "destructive",
    "open_world",
)
"""Fields that a sync always overwrites."""


def sanitized(record: ToolRecord) -> ToolRecord:
    """Return the record without NUL and lone surrogates, with bounded lengths.

    :raises InvalidTool: on a name outside ``server.tool``, an unknown kind, a schema that is not a
        JSON object of at most 256 KiB, or an input property with a name of the plan syntax.
    """
    if not record.name.startswith(f"{record.server}.") or len(record.name) > 200:
        raise InvalidTool(f"name must be '{record.server}.<tool>' of at most 200 characters")
    # A name with characters that change the direction of text would look like another tool's.
    if not record.name.isprintable() or not record.server or len(record.server) > 100:
        raise InvalidTool("name or server has characters that cannot be stored or shown")
    if record.kind not in models.ToolKind.values:
        raise InvalidTool(f"kind must be one of {', '.join(models.ToolKind.values)}")
    output = record.output_schema
    input_schema = _schema(record.input_schema, "input_schema")
    if _REFERENCE in replace(record, input_schema=input_schema).parameters:
        raise InvalidTool(f"input_schema has a property '{_REFERENCE}', which is plan syntax")
    return ToolRecord(
        name=record.name,
        kind=record.kind,
        server=record.server,
        title=_plain(record.title)[:200],
        description=_plain(record.description)[:MAX_DESCRIPTION],
        input_schema=input_schema,
        output_schema=None if output is None else _schema(output, "output_schema"),
        permission_set=record.permission_set,
        read_only=record.read_only,
        idempotent=record.idempotent,
        destructive=record.destructive,
        open_world=record.open_world,
        enabled=record.enabled,
    )


def _plain(value: str) -> str:
    return value.replace("\x00", "").encode("utf-8", "ignore").decode("utf-8")


def _schema(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidTool(f"{where} must be a JSON object")
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTool(f"{where} is not JSON: {error}") from error
    if len(written) > MAX_SCHEMA_BYTES:
        raise InvalidTool(f"{where} is longer than {MAX_SCHEMA_BYTES} bytes")
    if "\\u0000" in written or "\\ud" in written:
        written = json.dumps(_plain_tree(value))
    loaded: dict[str, Any] = json.loads(written)
    return loaded


def _plain_tree(value: Any) -> Any:
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_tree(item) for item in value]
    return value


def record_from_row(row: models.Tool) -> ToolRecord:
    """Convert a database row into a record."""
    return ToolRecord(
        name=row.name,
        kind=row.kind,
        server=row.server,
        title=row.title,
        description=row.description,
        input_schema=row.input_schema,
        output_schema=row.output_schema,
        permission_set=row.permission_set,
        read_only=row.read_only,
        idempotent=row.idempotent,
        destructive=row.destructive,
        open_world=row.open_world,
        enabled=row.enabled,
    )


def own_name(record: ToolRecord) -> str:
    """Return the tool's name without the name of its server."""
    return record.name.removeprefix(f"{record.server}.")


@dataclass(frozen=True, slots=True)
class ToolText:
    """The text of a tool for search, most significant part first; each part is one line."""

    headline: str
    summary: str
    body: str
    arguments: str

    def __str__(self) -> str:
        """The text that is embedded."""
        return "\n".join((self.headline, self.summary, self.body, self.arguments))

    @property
    def digest(self) -> str:
        """SHA-256 of the embedded text, as 64 hexadecimal characters."""
        return hashlib.sha256(str(self).encode("utf-8", "surrogatepass")).hexdigest()


def tool_text(record: ToolRecord) -> ToolText:
    """Split a tool into name and title, first sentence, rest of the description, arguments."""
    description = " ".join(record.description.split())
    end = _SENTENCE_END.search(description, _MIN_SENTENCE_CHARACTERS)
    cut = min(end.end() if end else _MAX_SENTENCE_LENGTH, _MAX_SENTENCE_LENGTH)
    arguments = (
        f"{tokenizer.spaced(name)} {_description_of(schema)}".strip()
        for name, schema in sorted(record.parameters.items())
    )
    return ToolText(
        headline=f"{tokenizer.spaced(record.name)} {tokenizer.spaced(record.title)}".strip(),
        summary=description[:cut].strip(),
        body=description[cut : cut + _MAX_BODY].strip(),
        arguments=". ".join(arguments)[:_MAX_BODY],
    )


def _description_of(schema: Any) -> str:
    found = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return " ".join(found.split()) if isinstance(found, str) else ""
