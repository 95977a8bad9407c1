"""JSON serializer of the cache: loading a pickle from Redis could execute code."""

from __future__ import annotations

import json
from typing import Any


class JSONSerializer:
    """Serializer for Django's Redis cache; integers stay plain so that Redis can increment them."""

    def dumps(self, value: Any) -> Any:
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)
