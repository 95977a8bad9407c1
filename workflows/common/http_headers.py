"""Validate HTTP headers from users and plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: A field name is a token (RFC 9110, section 5.6.2): no space, tab, colon or control character.
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MAX_NAME_LENGTH: Final = 256


def header_problem(name: str, value: str) -> str:
    """Return why `name: value` is no valid header; "" if it is valid."""
    if len(name) > _MAX_NAME_LENGTH or not _TOKEN.fullmatch(name):
        return f"header {name[:_MAX_NAME_LENGTH]!r} is not a name that HTTP allows"
    if not (value.isascii() and value.isprintable()):
        # This rejects line breaks, NUL and tabs.
        return f"the value of header {name!r} holds a character that HTTP does not allow"
    return ""


def headers_problem(headers: Mapping[str, str]) -> str:
    """Return the first problem, including names that differ only in case; "" without one."""
    seen: set[str] = set()
    for name, value in headers.items():
        problem = header_problem(name, value)
        if problem:
            return problem
        if name.lower() in seen:
            return f"header {name!r} is given twice"
        seen.add(name.lower())
    return ""
