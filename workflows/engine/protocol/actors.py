"""Who sends a command or makes a decision: a user, an agent, or the product itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """The sender of a command.

    `id` is the id of a user; an agent and the product have none.  `name` is for display: a user may
    change theirs, so no rule compares names.  `token` is the id of the API token that a user acts
    with.
    """

    name: str
    id: int | None = None
    token: int | None = None

    @property
    def is_user(self) -> bool:
        return self.id is not None


#: The product itself: workers, the sweeper, timeouts.
SYSTEM = Actor("system")


def agent(name: str) -> Actor:
    """Return the agent that decides between the layers of a run."""
    return Actor(f"agent:{name}")
