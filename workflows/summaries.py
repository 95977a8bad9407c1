"""What a person reads before signing a layer."""

from __future__ import annotations

from .engine.ports import Run


def summarise(run: Run) -> str:
    """Layer done, its results in short, the next layer and what approving will run."""
    layers, layer = run.revision.layers, run.state.layer
    done = run.settled(layers[layer]) if layer >= 0 else {}
    lines = [f"{name}: {each.status.value.lower()}" for name, each in done.items()]
    return "\n".join(lines)
