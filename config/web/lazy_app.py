"""An ASGI application that is imported when its first request arrives."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from django.utils.module_loading import import_string


class LazyApp:
    """Calls the application that the function at `path` returns; imports it in a thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self._app or await asyncio.to_thread(self._load)
        await app(scope, receive, send)

    def _load(self) -> Any:
        with self._lock:
            if self._app is None:
                self._app = import_string(self._path)()
            return self._app
