"""Actors by name, for tests in which the name is all that matters."""

from zlib import crc32

from workflows.engine.protocol.actors import SYSTEM, Actor


def actor_named(name: str) -> Actor:
    """The product, an agent, or a user with an id of their own that no account has."""
    if name == SYSTEM.name:
        return SYSTEM
    return Actor(name) if name.startswith("agent:") else Actor(name, id=user_id(name))


def user_id(name: str) -> int:
    """The id of the user whom `actor_named` returns."""
    return crc32(name.encode()) % 2**30 + 2**30
