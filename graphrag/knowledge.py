"""What a worker keeps of the tool graph in memory, each part until its revision changes.

One statement tells whether the graph, the words and the tools' records are still the present ones.
"""

from collections.abc import Mapping
from functools import cached_property

from graphrag import catalogue, graph, lexicon, revisions
from graphrag.catalogue import Shelf
from graphrag.graph import ToolGraph
from graphrag.lexicon import Lexicon
from graphrag.revisions import Seen


class Knowledge:
    """The tool graph as of one look: its edges, its words, its tools, each read when asked for.

    A search asks for no edges, and edges are by far the most.
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        self._seen = seen

    @cached_property
    def graph(self) -> ToolGraph:
        """Tools and what followed what."""
        return graph.at(self._seen.get("graph"))

    @cached_property
    def words(self) -> Lexicon:
        """How rare each word is."""
        return lexicon.at(self._seen.get("catalogue"))

    @cached_property
    def shelf(self) -> Shelf:
        """The tools that were read before."""
        return catalogue.shelf_at(self._seen.get("catalogue"))


def current() -> Knowledge:
    """The tool graph as it is now."""
    return Knowledge(revisions.present())
