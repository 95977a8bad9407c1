"""Verbs of steps and of tool names that ask for one kind of action."""

from functools import lru_cache

from graphrag import tokenizer

_CLASSES = tuple(
    tokenizer.stem_set(line)
    for line in (
        "create make add open new insert build start draft book schedule file submit post",
        "delete remove drop erase wipe purge forget uninstall clear cancel",
        "read get show open view describe retrieve fetch give tell see load inspect",
        "list show enumerate what which who browse get see",
        "search find look query locate lookup",
        "update edit change modify set close reopen patch transition assign resolve replace apply",
        "write save store put append export record note remember",
        "send post share message tell publish reply comment notify",
        "move rename relocate transfer",
        "copy duplicate clone fork",
        "run execute start restart rollout trigger scale",
        "check status test verify validate get",
        "link connect relate attach join",
        "install upgrade deploy",
        "download extract fetch crawl pull",
        "convert translate transform",
        "merge combine",
    )
)


@lru_cache(maxsize=16_384)
def _classes(stem: str) -> frozenset[int]:
    """Return the kinds of action of a stem. Key: the stem; bound: 16,384; constant."""
    return frozenset(at for at, stems in enumerate(_CLASSES) if stem in stems)


def agreement(verb: str, name_stems: frozenset[str]) -> int:
    """Return 1 when a step's verb and a tool's name share a kind of action, -1 when they differ.

    0 when either has no known verb. Both are stems.
    """
    wanted = _classes(verb)
    offered = frozenset().union(*map(_classes, name_stems))
    if not wanted or not offered:
        return 0
    return 1 if wanted & offered or verb in name_stems else -1
