"""Degrade to a fallback when the database cannot serve the tool graph."""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from django.db import DatabaseError, connection, transaction

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def with_fallback(query: Callable[[], Result], fallback: Callable[[str], Result]) -> Result:
    """Return the result of ``query``, or after a database error that of ``fallback``.

    ``fallback`` receives the reason as a sentence. In an open transaction the query runs in a
    savepoint, so that the transaction stays usable.
    """
    try:
        with transaction.atomic() if connection.in_atomic_block else nullcontext():
            return query()
    except DatabaseError as error:
        logger.exception("the tool graph cannot be queried")
        return fallback(f"The tool graph cannot be queried now: {first_line(error)}.")


def first_line(error: BaseException) -> str:
    """Return the first line of an error message; PostgreSQL adds the statement below it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
