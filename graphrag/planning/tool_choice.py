"""Choose the tool of a step: by search, by its server, and by arguments that can be filled."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from graphrag import conf, ranking
from graphrag.catalogue.tool_record import own_name
from graphrag.planning import arguments, calibration, parameters, verbs
from graphrag.planning.arguments import FilledArguments
from graphrag.planning.draft import Draft
from graphrag.planning.intents import Step
from graphrag.ranking import Ranked
from graphrag.retrieval import search

_CHOICES = 8
_CHOICES_OF_SERVER = 5
#: How many search results are compared with the tools that followed in past runs.
_SEARCHED_FOLLOWERS = 50
#: How much each of them counts beside the share of the best search score, which is 1 at most.
_NAMED_SERVER, _COMMON_SERVER, _SERVER_BEFORE, _ARGUMENTS, _FOLLOWER = 0.5, 0.25, 0.5, 0.3, 0.3
#: Share of the match beside the score.
_MATCH = 0.7
#: For a tool whose name has a verb of the step's kind; against one of another kind.
_VERB = 0.3
#: Share of the threshold that suffices for a tool of a server that the text or the plan uses.
_SUPPORTED = 0.5
_CLEAR_MARGIN = 0.15
_CONFIDENT = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A tool for a step with its arguments; its probability is computed from ``features``."""

    ranked: Ranked
    filled: list[FilledArguments]
    score: float
    features: tuple[float, ...] = ()

    @property
    def confidence(self) -> float:
        """The probability that it is the right tool."""
        return calibration.of_task(self.features)


def candidates(draft: Draft, step: Step) -> list[Ranked]:
    """Return tools for a step, best first; a failed search becomes a warning."""
    ranked = _searched(draft, step.query)
    best = ranked[0].confidence if ranked else 0.0
    if step.head == step.query or best >= _CONFIDENT:
        return ranked
    # The object of a search ("diffusion models") need not occur in the text of the tool.
    by_head = _searched(draft, step.head, with_cosines=True)
    return by_head if by_head and by_head[0].confidence > best + _CLEAR_MARGIN else ranked


def _searched(
    draft: Draft,
    query: str,
    *,
    server: str | None = None,
    limit: int = _CHOICES,
    with_cosines: bool = False,
) -> list[Ranked]:
    filters = draft.filters if server is None else replace(draft.filters, server=server)
    answer = search.search(
        query,
        limit=limit,
        filters=filters,
        with_cosines=with_cosines,
        cached=draft.cached,
    )
    for warning in answer.warnings:
        if warning not in draft.warnings:
            draft.warnings.append(warning)
    return ranking.rank(answer.found, graph=draft.graph, context=draft.names())


def servers_of_plan(found: Collection[Sequence[Ranked]]) -> dict[str, float]:
    """Return server -> mean over all steps of the share that its best tool has of the best score.

    One server often has the tools of most steps.
    """
    totals: dict[str, float] = {}
    for ranked in found:
        best: dict[str, float] = {}
        for item in ranked:
            best[item.tool.server] = max(best.get(item.tool.server, 0.0), item.score)
        for server, score in best.items():
            totals[server] = totals.get(server, 0.0) + score / max(1e-9, ranked[0].score)
    return {server: total / len(found) for server, total in totals.items()}


def choose(
    draft: Draft,
    step: Step,
    ranked: Sequence[Ranked],
    *,
    common: Mapping[str, float],
    named: Collection[str],
) -> list[Choice]:
    """Return the candidates of a step with their arguments, best first."""
    here = draft.servers_in(step.query)
    shares = _shares(draft, step, ranked, here or frozenset(named) or {draft.server_before})
    choices = []
    for item, share in shares.values():
        filled = arguments_of(draft, step, item)
        server = item.tool.server
        score = (
            share
            + _NAMED_SERVER * ((server in here) + 0.5 * (not here and server in named))
            + _COMMON_SERVER * common.get(server, 0.0)
            + _SERVER_BEFORE * (server == draft.server_before)
            + _ARGUMENTS * _share_filled(step, item, filled)
            + _FOLLOWER * _support(draft, item.tool.name)
            + _VERB * verbs.agreement(step.verb, parameters.name_stems(own_name(item.tool)))
        )
        choices.append(Choice(ranked=item, filled=filled, score=score))
    # A tool that fits too little for a plan never precedes one that fits.
    choices.sort(
        key=lambda choice: (
            not is_match(draft, choice, named), -choice.score, choice.ranked.tool.name,
        )
    )  # fmt: skip
    second = choices[1].score if len(choices) > 1 else 0.0
    return [
        replace(
            each, features=calibration.task_features(each.ranked.confidence, each.score, second)
        )
        for each in choices
    ]


def _shares(
    draft: Draft, step: Step, ranked: Sequence[Ranked], servers: Collection[str]
) -> dict[str, tuple[Ranked, float]]:
    """Return the candidates by name with their share of the best score, at most 1.

    The tools of a likely server are searched for as well, because a step often leaves it out.
    """
    best = max((item.confidence for item in ranked), default=1.0) or 1.0
    found = {
        item.tool.name: (item, _mixed(item.score / max(1e-9, ranked[0].score), item, best))
        for item in ranked
    }
    for server in sorted(filter(None, servers))[:2]:
        of_server = _searched(draft, step.query, server=server, limit=_CHOICES_OF_SERVER)
        for item in of_server:
            of_best = item.score / max(1e-9, of_server[0].score)
            share = of_best * min(1.0, of_server[0].confidence / best)
            found.setdefault(item.tool.name, (item, _mixed(share, item, best)))
    for item, share in _followers(draft, step):
        found.setdefault(item.tool.name, (item, _mixed(share, item, best)))
    return found


def _followers(draft: Draft, step: Step) -> list[tuple[Ranked, float]]:
    """Return the tools for a step that followed the plan's tools in past runs, with their share.

    Many tools may fit the words alike; past runs tell which of them is meant.
    """
    names = {edge.to_tool for name in draft.names() for edge in draft.graph.after(name)}
    if not names:
        return []
    ranked = _searched(draft, step.query, limit=_SEARCHED_FOLLOWERS)
    return [
        (item, item.score / max(1e-9, ranked[0].score))
        for item in ranked
        if item.tool.name in names
    ]


def _support(draft: Draft, name: str) -> float:
    """Return how strongly past runs support that a tool follows the plan's tools, 0 to 1."""
    edges = ranking.edges_from(draft.graph, draft.names(), name)
    return max((edge.support for edge in edges), default=0.0)


def _mixed(share: float, item: Ranked, best: float) -> float:
    """Mix the share of the best score with that of the best match.

    The score of a tool that the text asks for with its verb alone ("delete it") is low.
    """
    return (1.0 - _MATCH) * share + _MATCH * min(1.0, item.confidence / best)


def is_match(draft: Draft, choice: Choice, named: Collection[str]) -> bool:
    """Whether a tool fits well enough to be planned.

    A tool of a server that the text names or that the task before it calls needs less.
    """
    server = choice.ranked.tool.server
    supported = server in named or server == draft.server_before
    least = conf.suggest_threshold() * (_SUPPORTED if supported else 1.0)
    return choice.ranked.confidence >= least


def arguments_of(draft: Draft, step: Step, item: Ranked) -> list[FilledArguments]:
    """Return the arguments of the tool for a step, as of now."""
    return arguments.fill(
        item.tool,
        step=step,
        available=draft.sources(step),
        most=max(1, draft.remaining),
        carried=draft.carried.get(item.tool.server, {}),
        servers=draft.server_words,
    )


def _share_filled(step: Step, item: Ranked, filled: Sequence[FilledArguments]) -> float:
    """Return the mean of the shares of required arguments filled, and of literals taken."""
    if not filled:
        return 0.0
    required = max(1, len(item.tool.required))
    has = 1.0 - (len(filled[0].missing) + 0.5 * len(filled[0].unsure)) / required
    taken = min(1.0, filled[0].taken / len(step.literals)) if step.literals else 1.0
    return 0.5 * max(0.0, has) + 0.5 * taken
