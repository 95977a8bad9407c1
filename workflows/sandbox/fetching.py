"""Network for sandboxed code: the worker fetches, through `workflows.common.outbound_http`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from workflows.common.outbound_http import (
    NetworkDenied,
    NetworkFailed,
    NetworkForbidden,
    Response,
    request,
)
from workflows.permissions import deny_list

from .contract import Surroundings
from .denials import denied, failed


class Fetcher:
    """The `fetch` of one run, bounded in number and by the run's own deadline."""

    def __init__(
        self, around: Surroundings, deadline: float, should_stop: Callable[[], bool]
    ) -> None:
        self._around, self._deadline, self._should_stop = around, deadline, should_stop
        self._left = around.request.config.max_fetches

    def fetch(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes | None,
        line: int | None,
    ) -> Response:
        """Fetch `url`. Raises NetworkFailed for the code to handle, and what ends the run."""
        if self._left <= 0:
            raise failed("The program made too many network requests", line)
        self._left -= 1
        config = self._around.request.config
        remaining = max(self._deadline - time.monotonic(), 0.001)
        limits = replace(config.net, total_seconds=min(config.net.total_seconds, remaining))
        try:
            return request(
                method,
                url,
                grants=self._around.permissions,
                headers=headers,
                body=body,
                limits=limits,
                resolver=config.resolver,
                should_stop=self._should_stop,
                problem=deny_list.task_address_problem,
            )
        except NetworkForbidden as error:
            raise failed(str(error), line) from None
        except NetworkDenied as error:
            raise denied(self._around, "net", error.resource, line) from None


__all__ = ["Fetcher", "NetworkFailed"]
