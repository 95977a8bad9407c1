"""How well tools are found: fixed intents over real descriptions of public MCP servers."""

import sys

import pytest

from tests.integration.graphrag import fixtures, quality
from tests.integration.graphrag.quality import Quality

SETS = ("intents", "intents_held_out", "intents_blind")
#: The least share of intents whose tool is among the first three and the first five.
MIN_HIT_RATES = {
    "intents": (0.90, 0.93),
    "intents_held_out": (0.88, 0.92),
    "intents_blind": (0.72, 0.82),
}


def test_the_intent_set_has_its_documented_size() -> None:
    tools = fixtures.public_tools()
    assert len(tools) >= 100
    assert len({tool.server for tool in tools}) >= 8
    known = {tool.name for tool in tools}
    for name in SETS:
        assert len(fixtures.intents(name)) >= 100
        assert all(intent.tools <= known for intent in fixtures.intents(name))


@pytest.mark.parametrize("name", SETS)
def test_hybrid_is_at_least_as_good_as_each_part(
    public_catalogue: None, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    intents = fixtures.intents(name)
    parts: dict[str, Quality] = {
        "hashing": quality.measure(intents, quality.by_vector),
        "full text": quality.measure(intents, quality.text_only),
    }
    hybrid = quality.measure(intents, quality.hybrid)
    lines = [found.line(label) for label, found in {**parts, "hybrid": hybrid}.items()]
    with capsys.disabled():
        report = "\n".join([f"{quality.HEADER}  ({name}: {len(intents)} intents)", *lines])
        sys.stdout.write(f"\n{report}\n")
    for part in parts.values():
        assert hybrid.hit_1 >= part.hit_1
        assert hybrid.hit_3 >= part.hit_3
        assert hybrid.hit_5 >= part.hit_5
        assert hybrid.mrr >= part.mrr
    assert hybrid.hit_3 >= MIN_HIT_RATES[name][0]
    assert hybrid.hit_5 >= MIN_HIT_RATES[name][1]


def test_nine_of_ten_intents_find_their_tool_among_five(public_catalogue: None) -> None:
    every = [intent for name in SETS for intent in fixtures.intents(name)]
    assert quality.measure(every, quality.hybrid).hit_5 >= 0.90
