"""`python -m tests.evaluation`: print how well tools are found and plans are made.

Public MCP servers are installed below var/eval at the first run, which takes minutes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.benchmarks.surroundings import bench
from tests.evaluation import servers

INTENTS = Path(__file__).with_name("intents.json")
#: Single intents for the other nine servers; nothing was fitted on them.
MORE_INTENTS = Path(__file__).with_name("intents_more.json")


def main() -> None:
    """Fill a catalogue of its own, measure, print."""
    begun = time.monotonic()
    lists = servers.tool_lists()
    with bench(quick=True):
        _measure(lists)
    print(f"\n{time.monotonic() - begun:.0f} s")


def _measure(lists: dict[str, list[servers.ListedTool]]) -> None:
    from django.conf import settings
    from django.test import override_settings

    from graphrag.catalogue import ingest
    from graphrag.models import Tool
    from tests.evaluation import baselines, learning, plans, retrieval, speculation
    from tests.evaluation.catalogue import by_product, record

    rows = json.loads(INTENTS.read_text())
    more = json.loads(MORE_INTENTS.read_text())
    intents, held_out = retrieval.intents_of(rows["single"]), retrieval.intents_of(more["single"])
    records = [record(server, tool) for server, tools in lists.items() for tool in tools]
    wrong = plans.wrong_labels([row for rows in plans.halves().values() for row in rows], records)
    if wrong:
        raise SystemExit("\n".join(["The catalogue lacks these labels:", *wrong]))
    Tool.objects.all().delete()
    ingest.upsert_tools(records)
    count = len(intents) + len(held_out)
    print(f"{len(records)} tools of {len(lists)} servers, {count} intents of one step")
    rankers = {
        "product": by_product,
        "BM25": baselines.bm25(records),
        "character 3-5-grams": baselines.character_ngrams(records),
    }
    print("\n".join(retrieval.table(rankers, intents, held_out)))
    _measure_plans()
    with override_settings(HOLDPOINT={**settings.HOLDPOINT, "embedder": "semantic"}):
        print("\nwith the extra `semantic`")
        ingest.reembed()
        print("\n".join(retrieval.table({"product": by_product}, intents, held_out)))
        _measure_plans()
    print("\nthe next tool of invented runs")
    recipes = [[step["tools"][:1] for step in row["steps"]] for row in rows["multi"]]
    print("\n".join(learning.predictions([each.name for each in records], recipes)))
    print("\nplans of held-out runs")
    print("\n".join(learning.plan_accuracy()))
    print("\nspeculation on replayed decisions")
    print("\n".join(speculation.measure()))


def _measure_plans() -> None:
    from tests.evaluation import plans

    for half, several in plans.halves().items():
        print(f"\n{len(several)} intents of several steps, {half}")
        print("\n".join(plans.table(several)))
        again = [row for row in several if plans.can_be_replanned(row)]
        print(f"\n{len(again)} of them, replanned after the first step")
        print("\n".join(plans.table(again, plans.replanned)))


if __name__ == "__main__":
    main()
