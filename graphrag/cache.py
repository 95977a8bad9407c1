"""The parts of the tool graph that each worker process caches.

One query reads the current cache versions; each part is read again only when its version changed.
"""

from collections.abc import Mapping
from functools import cached_property

from graphrag import versioned_cache
from graphrag.catalogue import selectors as catalogue_selectors
from graphrag.catalogue.selectors import ToolCache
from graphrag.graph import tool_graph
from graphrag.graph.tool_graph import ToolGraph
from graphrag.retrieval import idf
from graphrag.retrieval.idf import Idf
from graphrag.versioned_cache import CacheVersion


class CacheSnapshot:
    """The cached tool graph at one set of versions; each part is loaded at its first use.

    A search never loads the edges, which are by far the largest part.
    """

    def __init__(self, versions: Mapping[str, CacheVersion]) -> None:
        self._versions = versions

    @cached_property
    def graph(self) -> ToolGraph:
        """The enabled tools and the edges between them."""
        return tool_graph.at(self._versions.get("graph"))

    @cached_property
    def idf(self) -> Idf:
        """Inverse document frequencies of the words in the catalogue."""
        return idf.at(self._versions.get("catalogue"))

    @cached_property
    def tools(self) -> ToolCache:
        """Tool records that this process has read."""
        return catalogue_selectors.tool_cache_at(self._versions.get("catalogue"))


def current() -> CacheSnapshot:
    """Return the cache at the versions that the database has now."""
    return CacheSnapshot(versioned_cache.current_versions())
