"""Network access of sandboxed code: the worker sends requests with `common.outbound_http`."""

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

from .code_request import RunEnvironment
from .denials import denial, task_failure


class Fetcher:
    """The `fetch` function of one run, limited in number and by the deadline of the run."""

    def __init__(
        self, environment: RunEnvironment, deadline: float, should_stop: Callable[[], bool]
    ) -> None:
        self._environment, self._deadline, self._should_stop = environment, deadline, should_stop
        self._left = environment.request.config.max_fetches

    def fetch(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        body: bytes | None,
        line: int | None,
    ) -> Response:
        """Fetch `url`.

        Raises NetworkFailed, which the program can handle, and exceptions that end the run.
        """
        if self._left <= 0:
            raise task_failure("The program made too many network requests", line)
        self._left -= 1
        config = self._environment.request.config
        remaining = max(self._deadline - time.monotonic(), 0.001)
        limits = replace(config.net, total_seconds=min(config.net.total_seconds, remaining))
        try:
            return request(
                method,
                url,
                grants=self._environment.permissions,
                headers=headers,
                body=body,
                limits=limits,
                resolver=config.resolver,
                should_stop=self._should_stop,
                problem=deny_list.task_address_problem,
            )
        except NetworkForbidden as error:
            raise task_failure(str(error), line) from None
        except NetworkDenied as error:
            raise denial(self._environment, "net", error.resource, line) from None


__all__ = ["Fetcher", "NetworkFailed"]
