"""What a worker keeps of the tool graph in memory, each part until its revision changes.

One statement tells whether the graph, the words and the tools' records are still the present ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from graphrag import catalogue, graph, lexicon, revisions
from graphrag.catalogue import Shelf
from graphrag.graph import ToolGraph
from graphrag.lexicon import Lexicon
from graphrag.records import ToolRecord


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The tool graph as it was when a plan was begun: its edges, its words, its tools."""

    graph: ToolGraph
    words: Lexicon
    shelf: Shelf

    def tools_by_name(self, names: Iterable[str]) -> dict[str, ToolRecord]:
        """As ``catalogue.tools_by_name``, from memory where they were read before."""
        return self.shelf.by_name(names)


def current() -> Knowledge:
    """The tool graph as it is now."""
    seen = revisions.present()
    return Knowledge(
        graph.at(seen.get("graph")),
        lexicon.at(seen.get("catalogue")),
        catalogue.shelf_at(seen.get("catalogue")),
    )
