"""Values of the cache as JSON: a pickle in Redis would be code execution in the web process."""

from __future__ import annotations

import json
from typing import Any


class JSONSerializer:
    """For Django's Redis cache; whole numbers stay bare, so that Redis can count them."""

    def dumps(self, value: Any) -> Any:
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)
