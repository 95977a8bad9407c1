"""Remove secrets and personal data from values before they are summarized, mailed or logged.

All patterns match in linear time. Redacted text is replaced by its kind in square brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from workflows.engine.bounded_json import JSON

SECRET: Final = "[secret]"  # noqa: S105
#: Mask of a secret that users with the right can reveal.
DOTS: Final = "•" * 8

_SECRET_KEY: Final = re.compile(
    r"passw|passphrase|secret|token|authori[sz]ation|credential|cookie|bearer"
    r"|(?:api|private|access|signing|encryption|ssh)[-_ ]?key|session[-_ ]?(?:id|key)|^pwd$|^pin$",
    re.IGNORECASE,
)
#: Matches of texts longer than this are cached.
_LONG_TEXT: Final = 5_000
#: Numbers such as `max_tokens` and `token_count` are not secret.
_COUNT_KEY: Final = re.compile(r"tokens|count|limit|max|min|length|size|expir|ttl", re.IGNORECASE)

_Replacement = str | Callable[[re.Match[str]], str]


def redact(value: JSON) -> JSON:
    """Return a copy of `value` without secrets, e-mail addresses, phone and card numbers.

    The value of a key that names a secret is removed completely; other texts are searched.
    """
    if isinstance(value, dict):
        redacted: dict[str, Any] = {}
        for key, item in value.items():
            redacted[_unused(redact_text(key), redacted)] = _redact_item(key, item)
        return redacted
    if isinstance(value, (list, tuple)):
        return [redact(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """Return a text without secrets and personal data."""
    if len(text) < 5:
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def is_secret_field(key: str, item: Any) -> bool:
    """Whether the key marks `item` as secret; counts, flags and empty values are not secret."""
    if not _SECRET_KEY.search(key) or item is None or isinstance(item, bool):
        return False
    if isinstance(item, (int, float)) and _COUNT_KEY.search(key):
        return False
    return item not in ("", [], {})


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions of likely secrets in `text` as ordered, disjoint [start, end) pairs.

    It uses fewer patterns than `redact`, because reviewers have to read addresses, card numbers and
    digests.
    """
    if len(text) < 8:
        return []
    return list(_long_text_spans(text)) if len(text) > _LONG_TEXT else _find_spans(text)


def mask_secrets(text: str) -> str:
    """Return `text` with its secrets masked, for places without a reveal action."""
    for start, end in reversed(secret_spans(text)):
        text = f"{text[:start]}{DOTS}{text[end:]}"
    return text


# Keyed by the text; bounded by 16 texts; never stale, because the result depends only on the key.
@lru_cache(maxsize=16)
def _long_text_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Cache the spans of a long text: a search takes tenths of a second, several times per page."""
    return tuple(_find_spans(text))


def _find_spans(text: str) -> list[tuple[int, int]]:
    return merge_spans(
        match.span(match.lastindex or 0)
        for pattern in _SECRET_PATTERNS
        for match in pattern.finditer(text)
    )


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans, merge overlapping ones and drop empty ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _unused(key: str, redacted: dict[str, Any]) -> str:
    """Return `key`, with a number if another redacted key is equal."""
    return key if key not in redacted else f"{key} {len(redacted) + 1}"


def _redact_item(key: str, item: Any) -> Any:
    return SECRET if is_secret_field(key, item) else redact(item)


def _long_token(match: re.Match[str]) -> str:
    """Redact random text: mixed case with digits, or hexadecimal; words and slugs are neither."""
    text = match[0]
    is_mixed = text.lower() != text and text.upper() != text and any(map(str.isdigit, text))
    is_hex = _HEX.fullmatch(text) is not None
    return "[token]" if is_mixed or is_hex else text


def _card(match: re.Match[str]) -> str:
    digits = [int(each) for each in match[0] if each.isdigit()][::-1]
    doubled = [n if at % 2 == 0 else sum(divmod(2 * n, 10)) for at, n in enumerate(digits)]
    return "[card]" if sum(doubled) % 10 == 0 else match[0]


_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_WORDS_BEFORE_SECRETS: Final = (
    r"(?:password|passwd|passphrase|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|private[-_ ]?key)"
)
_RULES: Final[tuple[tuple[re.Pattern[str], _Replacement], ...]] = (
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,60}-----)?"),
        "[private key]",
    ),
    (re.compile(r"(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}@"), f"{SECRET}@"),
    (re.compile(r"\b(Bearer|Basic)\s{1,5}[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), rf"\1 {SECRET}"),
    (
        re.compile(
            rf"({_WORDS_BEFORE_SECRETS}[\"']?\s{{0,5}}[=:]\s{{0,5}})"
            r"(?:\"[^\"\n]{1,500}\"?|'[^'\n]{1,500}'?|[^\s\"',;&]{1,500})",
            re.IGNORECASE,
        ),
        rf"\1{SECRET}",
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"), "[token]"),
    (re.compile(r"\b(?:gh[opsru]_|github_pat_|xox[abeprs]-|glpat-)[\w-]{10,}"), "[token]"),
    (re.compile(r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), "[token]"),
    (re.compile(r"\b[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"), "[e-mail]"),
    (re.compile(r"(?<![\w+-])[A-Za-z0-9+_-]{32,}={0,2}"), _long_token),
    (re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"), "[account]"),
    (re.compile(r"(?<![\w.-])(?:[0-9][ -]?){12,18}[0-9](?![\w-])"), _card),
    (re.compile(r"(?<![\w.-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])"), "[id number]"),
    (re.compile(r"(?<![\w+])\+[0-9][0-9 ().-]{7,17}[0-9](?![\w])"), "[phone]"),
)

#: The last group, if any, is the secret.
_SECRET_PATTERNS: Final[tuple[re.Pattern[str], ...]] = (
    _RULES[0][0],
    re.compile(r"(?<=://)[^\s/:@]{1,100}:([^\s/@]{1,200})@"),
    # Not “basic knowledge”: credentials have digits or end in "=".
    re.compile(
        r"\b(?:Bearer|Basic)\s{1,5}(?=[A-Za-z._~+/-]{0,200}[0-9=])([A-Za-z0-9._~+/=-]{6,})",
        re.IGNORECASE,
    ),
    re.compile(rf"{_WORDS_BEFORE_SECRETS}=([^\s\"',;&]{{1,500}})", re.IGNORECASE),
    re.compile(
        rf"{_WORDS_BEFORE_SECRETS}[\"']?\s{{0,5}}[=:]\s{{0,5}}(?:(?=\"([^\"\n]{{1,500}})))",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_WORDS_BEFORE_SECRETS}[\"']?\s{{0,5}}[=:]\s{{0,5}}(?:(?='([^'\n]{{1,500}})))",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_WORDS_BEFORE_SECRETS}\s{{0,5}}[=:]\s{{0,5}}"
        r"(?=[^\s\"',;&]{0,200}[0-9])([^\s\"',;&]{4,500})",
        re.IGNORECASE,
    ),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(
        r"\b(?:gh[opsru]_|github_pat_|xox[abeprs]-|glpat-|npm_|hvs\.|ya29\.|AIza|SG\.)[\w.-]{10,}"
    ),
    re.compile(r"\b(?:sk|rk)[-_][\w-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bhp_[a-z0-9]{8}_[\w-]{40,}"),
)
