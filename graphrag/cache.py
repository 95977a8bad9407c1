"""What a worker keeps of the tool graph in memory, each part until its revision changes.

One statement tells whether the graph, the words and the tools' records are still the present ones.
"""

from collections.abc import Mapping
from functools import cached_property

from graphrag import versioned_cache
from graphrag.catalogue import selectors as catalogue_selectors
from graphrag.catalogue.selectors import Shelf
from graphrag.graph import tool_graph
from graphrag.graph.tool_graph import ToolGraph
from graphrag.retrieval import idf
from graphrag.retrieval.idf import Lexicon
from graphrag.versioned_cache import Seen


class Knowledge:
    """The tool graph as of one look: its edges, its words, its tools, each read when asked for.

    A search asks for no edges, and edges are by far the most.
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        self._seen = seen

    @cached_property
    def graph(self) -> ToolGraph:
        """Tools and what followed what."""
        return tool_graph.at(self._seen.get("graph"))

    @cached_property
    def words(self) -> Lexicon:
        """How rare each word is."""
        return idf.at(self._seen.get("catalogue"))

    @cached_property
    def shelf(self) -> Shelf:
        """The tools that were read before."""
        return catalogue_selectors.shelf_at(self._seen.get("catalogue"))


def current() -> Knowledge:
    """The tool graph as it is now."""
    return Knowledge(versioned_cache.present())
