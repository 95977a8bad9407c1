"""Choose the tool of a step: by search, by its server, and by arguments that can be filled."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from graphrag import actions, conf, ranking, tokenizer
from graphrag.actions import Effect
from graphrag.catalogue.tool_record import ToolRecord, own_name
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
#: The best tools of a step that are looked up in past decisions, and what a refused one loses.
_CHECKED, _REFUSED = 3, 0.3
#: Share of the threshold that suffices for a tool of a server that the text or the plan uses.
_SUPPORTED = 0.75
_CLEAR_MARGIN = 0.15
_CONFIDENT = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What speaks for a tool, 0 to 1 each; ``verb`` is -1 for a verb of another kind.

    ``score`` and ``match`` are shares of the best search score and of the best match; ``here`` and
    ``named`` tell that the step or the intent names its server, ``common`` how well the server fits
    the other steps, ``before`` that the task before calls it. ``filled`` is the share of required
    arguments, ``taken`` that of the values of the text. ``name`` is the share of the words of the
    tool's name that the step has, ``effect`` tells that it reads, changes or destroys as asked.
    ``follower``: support by past runs.
    """

    score: float
    match: float
    here: float
    named: float
    common: float
    before: float
    filled: float
    taken: float
    verb: float
    name: float
    effect: float
    follower: float

    @property
    def total(self) -> float:
        """The weighted sum, which orders the tools of a step."""
        values: tuple[float, ...] = astuple(self)
        return sum(weight * value for weight, value in zip(WEIGHTS, values, strict=True))


#: In the order of the fields, fitted by `python -m tests.evaluation.calibration`. The last is set
#: by hand: the plans of the evaluation have no past runs.
WEIGHTS = (0.55, 0.45, 0.44, 0.16, 0.20, 0.54, 0.08, 0.45, 0.14, 0.24, 0.10, 0.26)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A tool for a step with its arguments; its probability is computed from ``features``."""

    ranked: Ranked
    filled: list[FilledArguments]
    signals: Signals
    score: float
    features: tuple[float, ...] = ()
    is_refused: bool = False

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
    best = max((item.confidence for item in ranked), default=1.0) or 1.0
    shares = _shares(draft, step, ranked, best, here or frozenset(named) or {draft.server_before})
    stems, asked = frozenset(tokenizer.stems(step.query)), actions.asked(f"{step.verb} {step.text}")
    choices = []
    for item, share in shares.values():
        filled = arguments_of(draft, step, item)
        server = item.tool.server
        has, taken = _shares_filled(step, item, filled)
        signals = Signals(
            score=share,
            match=min(1.0, item.confidence / best),
            here=float(server in here),
            named=float(not here and server in named),
            common=common.get(server, 0.0),
            before=float(server == draft.server_before),
            filled=has,
            taken=taken,
            verb=verbs.agreement(step.verb, parameters.name_stems(own_name(item.tool))),
            name=_share_named(item.tool, stems, step.verb),
            effect=float(_effect(item.tool) is asked),
            follower=_support(draft, item.tool.name),
        )
        choices.append(Choice(ranked=item, filled=filled, signals=signals, score=signals.total))
    choices.sort(key=lambda choice: (-choice.score, choice.ranked.tool.name))
    # A tool that fits too little for a plan never precedes one that fits.
    choices.sort(key=lambda choice: not is_match(draft, choice, named))
    choices = _refused_later(draft, choices)
    choices.sort(key=lambda choice: not is_match(draft, choice, named))
    second = choices[1].score if len(choices) > 1 else 0.0
    return [
        replace(
            each, features=calibration.task_features(each.ranked.confidence, each.score, second)
        )
        for each in choices
    ]


def _refused_later(draft: Draft, choices: list[Choice]) -> list[Choice]:
    """Move the tools that people mostly refused behind the next best ones that fit alike."""
    first = choices[:_CHECKED]
    refused = draft.refused([each.ranked.tool.name for each in first])
    if not refused:
        return choices
    lowered = [
        replace(each, score=each.score - _REFUSED, is_refused=True)
        if each.ranked.tool.name in refused
        else each
        for each in first
    ]
    return [*sorted(lowered, key=lambda choice: -choice.score), *choices[_CHECKED:]]


def _shares(
    draft: Draft, step: Step, ranked: Sequence[Ranked], best: float, servers: Collection[str]
) -> dict[str, tuple[Ranked, float]]:
    """Return the candidates by name with their share of the best score, at most 1.

    The tools of a likely server are searched for as well, because a step often leaves it out.
    """
    found = {item.tool.name: (item, item.score / max(1e-9, ranked[0].score)) for item in ranked}
    for server in sorted(filter(None, servers))[:2]:
        of_server = _searched(draft, step.query, server=server, limit=_CHOICES_OF_SERVER)
        for item in of_server:
            of_best = item.score / max(1e-9, of_server[0].score)
            share = of_best * min(1.0, of_server[0].confidence / best)
            found.setdefault(item.tool.name, (item, share))
    for item, share in _followers(draft, step):
        found.setdefault(item.tool.name, (item, share))
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


def _effect(tool: ToolRecord) -> Effect:
    return actions.of_tool(own_name(tool), read_only=tool.read_only, destructive=tool.destructive)


def _share_named(tool: ToolRecord, stems: frozenset[str], verb: str) -> float:
    """Return the share of the words of the tool's name, without its server's, that a step has.

    Any verb for the action of the step counts: "show" for ``get``.
    """
    words = parameters.name_stems(own_name(tool)) - parameters.name_stems(tool.server)
    if not words:
        return 0.0
    said = sum(stem in stems or verbs.agreement(verb, frozenset((stem,))) > 0 for stem in words)
    return said / len(words)


def _shares_filled(
    step: Step, item: Ranked, filled: Sequence[FilledArguments]
) -> tuple[float, float]:
    """Return the shares of required arguments filled, and of literals taken."""
    if not filled:
        return 0.0, 0.0
    required = max(1, len(item.tool.required))
    has = 1.0 - (len(filled[0].missing) + 0.5 * len(filled[0].unsure)) / required
    if step.literals:
        return max(0.0, has), min(1.0, filled[0].taken / len(step.literals))
    is_taken = not step.has_subject or step.subject in filled[0].values.values()
    return max(0.0, has), float(is_taken)
