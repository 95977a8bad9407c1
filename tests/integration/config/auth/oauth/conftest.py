"""All tests register clients from one address, whose attempts count in Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis


@pytest.fixture(autouse=True)
def unlimited_address(settings: Any) -> Iterator[None]:
    """Limit the address of the tests to no number, and leave no count to others."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "oauth_registrations_per_address": 1000}
    yield
    with redis.Redis.from_url(settings.REDIS_URL) as counters:
        for key in counters.scan_iter("holdpoint:throttle:oauth-client:127.0.0.1:*"):
            counters.delete(key)
