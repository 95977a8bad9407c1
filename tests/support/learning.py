"""One finished run as the tool graph learns it."""

from collections.abc import Collection, Iterable, Sequence

from graphrag.learning import FinishedRun, learn_runs


def learn(
    *,
    execution_key: str,
    layers: Sequence[Collection[str]] = (),
    edges: Iterable[tuple[str, str]] = (),
) -> None:
    """Learn from a run with that key, whose tools ran layer by layer."""
    learn_runs([FinishedRun(execution_key=execution_key, layers=layers, edges=edges)])
