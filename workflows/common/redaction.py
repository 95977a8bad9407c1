"""Remove secrets and personal data from values before they are summarized, mailed or logged.

All patterns match in linear time. Redacted text is replaced by its kind in square brackets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Final

from workflows.engine.values.bounded_json import JSON
from workflows.engine.values.secret_text import (
    DOTS,
    NAME,
    PRIVATE_KEY,
    mask_secrets,
    merge_spans,
    secret_spans,
)

__all__ = [
    "DOTS", "is_secret_field", "mask_secrets", "merge_spans", "redact", "redact_text",
    "secret_spans",
]  # fmt: skip

SECRET: Final = "[secret]"  # noqa: S105

#: Names whose value is secret; a longer word that ends so is secret too (`dbpassword`).
_SECRET_WORDS: Final = (
    "password", "passwd", "passwort", "kennwort", "passphrase", "passcode", "secret", "token",
    "credential", "cookie", "authorization", "authorisation", "bearer", "otp", "cvv", "cvc", "pin",
    "pwd", "jwt", "apikey",
)  # fmt: skip
_SUFFIXES: Final = ("password", "passwd", "passwort", "passphrase", "secret", "token", "apikey")
#: Words before `key`, and before `code`, that make a secret.
_KEYS: Final = frozenset(
    {
        "access", "api", "auth", "encryption", "hmac", "master", "private", "secret", "session",
        "shared", "signing", "ssh",
    }
)  # fmt: skip
_CODES: Final = frozenset(
    {
        "access", "auth", "authorization", "backup", "cvc", "cvv", "mfa", "otp", "pin", "recovery",
        "security", "totp", "verification",
    }
)  # fmt: skip
#: Last words of a name that do not change what its value is: `password_confirmation`.
_SAME_VALUE: Final = frozenset(
    {
        "again", "base", "confirm", "confirmation", "data", "digits", "hash", "header", "hex",
        "hint", "json", "key", "new", "old", "plain", "plaintext", "raw", "repeat", "string",
        "text", "value",
    }
)  # fmt: skip
#: Words before `token` that make it the position in a list.
_POSITIONS: Final = frozenset({"continuation", "cursor", "next", "page", "pagination"})
#: Numbers such as `max_tokens` are not secret.
_COUNTS: Final = frozenset({"tokens", "count", "limit", "max", "min", "total", "ttl"})

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
    for start, end in reversed(secret_spans(text)):
        text = f"{text[:start]}{SECRET}{text[end:]}"
    return text


def is_secret_field(key: str, item: Any) -> bool:
    """Whether the key marks `item` as secret; counts, flags and empty values are not secret."""
    if item is None or isinstance(item, bool) or item in ("", [], {}):
        return False
    words = _words(key)
    if isinstance(item, (int, float)) and _COUNTS.intersection(words):
        return False
    return _is_secret_name([_singular(each) for each in words])


def _words(key: str) -> list[str]:
    """Return the words of a key in lower case: `x-api-key`, `apiKey` and `API_KEY2` have two."""
    text = unicodedata.normalize("NFKC", key[-_LONGEST_KEY:])
    text = _CAMEL_CASE.sub(" ", text).lower()
    words = (each.rstrip("0123456789") for each in _NOT_WORDS.split(text))
    return [each for each in words if each]


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _is_secret_name(words: Sequence[str]) -> bool:
    """Whether the last words name a secret: `access_token` does, `token_type` does not."""
    if not words:
        return False
    *before, last = words
    pair = (before[-1] if before else "", last)
    if last == "key" and _KEYS.intersection(before):
        return True
    if pair in _PAIRS or (last == "code" and pair[0] in _CODES):
        return True
    if last == "token" and _POSITIONS.intersection(before):
        return False
    if last in _SECRET_WORDS or last.endswith(_SUFFIXES) or last.startswith("passw"):
        return True
    return last in _SAME_VALUE and _is_secret_name(before)


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


#: Longer keys are cut from their beginning: the end of a key names its value.
_LONGEST_KEY: Final = 200
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORDS: Final = re.compile(r"[\W_]+")
#: Two words that name a secret only together.
_PAIRS: Final = frozenset({("session", "id"), ("secret", "id"), ("basic", "auth")})
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_RULES: Final[tuple[tuple[re.Pattern[str], _Replacement], ...]] = (
    (PRIVATE_KEY, "[private key]"),
    (re.compile(r"(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}@"), f"{SECRET}@"),
    (re.compile(r"\b(Bearer|Basic)\s{1,5}[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), rf"\1 {SECRET}"),
    (
        re.compile(
            rf"({NAME}[\"']?\s{{0,5}}[=:]\s{{0,5}})"
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
