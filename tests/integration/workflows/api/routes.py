"""The API's routes, read from the URLconf, so that no endpoint is forgotten."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

PREFIX = "api/v1/"
_ARGUMENT = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>[^)]*\)")


@dataclass(frozen=True)
class Route:
    """`path` with its arguments as `{name}`; `methods` in capitals."""

    path: str
    methods: tuple[str, ...]
    module: str

    def filled(self, values: Mapping[str, str]) -> str:
        return "/" + self.path.format(**values)


def api_routes() -> list[Route]:
    return sorted(_walk(get_resolver(), ""), key=lambda route: route.path)


def _walk(resolver: URLResolver, prefix: str) -> Iterator[Route]:
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern).removeprefix("^")
        if isinstance(pattern, URLResolver):
            if PREFIX.startswith(path) or path.startswith(PREFIX):
                yield from _walk(pattern, path)
        elif isinstance(pattern, URLPattern) and path.startswith(PREFIX):
            yield Route(_plain(path), _methods(pattern.callback), pattern.callback.__module__)


def _plain(path: str) -> str:
    named = _ARGUMENT.sub(lambda found: "{" + (found[1] or found[2]) + "}", path)
    return named.removesuffix("$").removesuffix(r"\Z").replace("\\", "")


def _methods(view: Any) -> tuple[str, ...]:
    actions = getattr(view, "actions", None)
    names = actions if actions else [n for n in view.cls.http_method_names if hasattr(view.cls, n)]
    return tuple(sorted({name.upper() for name in names} - {"OPTIONS", "HEAD"}))
