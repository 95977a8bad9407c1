"""Say what the tool graph holds."""

from typing import Any

from django.core.management.base import BaseCommand

from graphrag import versioned_cache
from graphrag.catalogue import ingest
from graphrag.catalogue import selectors as catalogue_selectors
from graphrag.embedding import embedders
from graphrag.graph import tool_graph
from graphrag.models import LearnedExecution, Tool

_SHOWN = 10


class Command(BaseCommand):
    """``manage.py tool_graph_stats``: tools, vectors, edges, the most central tools."""

    help = "Shows the size of the catalogue, the state of its vectors, and what runs have taught."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the report."""
        present = tool_graph.current()
        total = Tool.objects.count()
        self._line("tools", f"{total}, {len(present.names)} of them enabled")
        for server, count in catalogue_selectors.servers().items():
            self._line(f"  {server}", str(count))
        self._line("vectors", self._vectors(total))
        edges = present.edges()
        self._line("edges", str(len(edges)))
        self._line("executions learned", str(LearnedExecution.objects.count()))
        self._line("revision", str(versioned_cache.revision_number("graph")))
        self._most_central(present)
        self._strongest(edges)

    def _line(self, label: str, value: str) -> None:
        self.stdout.write(f"{label:<24}{value}")

    def _vectors(self, total: int) -> str:
        try:
            waiting = ingest.outdated().count()
            identity = embedders.current().identity
        except embedders.EmbedderError as error:
            return f"none can be made: {error}"
        ending = f", {waiting} wait for reembed" if waiting else ""
        return f"{total - waiting} by {identity}{ending}"

    def _most_central(self, present: tool_graph.ToolGraph) -> None:
        ranked = sorted(zip(present.names, present.ranks, strict=True), key=lambda pair: -pair[1])
        if present.edges():
            self.stdout.write("most central (PageRank, times the average)")
            for name, rank in ranked[:_SHOWN]:
                self._line(f"  {rank:.2f}", name)

    def _strongest(self, edges: list[tool_graph.Edge]) -> None:
        if edges:
            self.stdout.write("most often observed")
            for edge in sorted(edges, key=lambda edge: -edge.count)[:_SHOWN]:
                self._line(f"  {edge.count} ({edge.confidence:.1f})",
                           f"{edge.from_tool} -> {edge.to_tool}")  # fmt: skip
