"""The parts of a document that a JMESPath expression can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .expressions import compiled

#: Nodes that evaluate only their first child over the document itself.
_FIRST_CHILD: Final = frozenset(
    {
        "index_expression",
        "projection",
        "value_projection",
        "flatten",
        "filter_projection",
        "pipe",
        "subexpression",
    }
)
_WHOLE: Final = frozenset({"current", "identity"})
#: Nodes that read nothing of the document: a constant, or a function over another value.
_NOTHING: Final = frozenset({"literal", "expref", "index", "slice"})


def read_paths(expression: str) -> frozenset[tuple[str, ...]]:
    """Return what `expression` can read: one or two keys per path, () for the whole document.

    Raises:
        ExpressionError: it is not JMESPath.
    """
    return frozenset(_paths(compiled(expression).parsed))


def _paths(node: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    kind, children = node["type"], node["children"]
    if kind == "field":
        yield (node["value"],)
    elif kind in _WHOLE:
        yield ()
    elif kind == "subexpression" and children[0]["type"] == "field":
        key = _key(children[1])
        yield (children[0]["value"],) if key is None else (children[0]["value"], key)
    elif kind in _FIRST_CHILD:
        yield from _paths(children[0])
    elif kind not in _NOTHING:
        for child in children:
            yield from _paths(child)


def _key(node: Mapping[str, Any]) -> str | None:
    """Return the key that the second part of `first.second` reads first, if it is a constant."""
    while node["type"] in _FIRST_CHILD:
        node = node["children"][0]
    return node["value"] if node["type"] == "field" else None
