"""Find and mask likely secrets in text.

All patterns match in linear time.  `MaskedTitle`, `MaskedText` and `MaskedComment` are the types of
what people and agents write: titles, instructions, comments, reasons and messages.  They mask the
text when a plan, a policy or a command is made, so that nothing that stores, searches, lists or
exports such a text has the secret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated, Final

from pydantic import AfterValidator, Field

#: Mask of a secret.
DOTS: Final = "•" * 8
#: Matches of texts longer than this are cached.
_LONG_TEXT: Final = 5_000
#: Masking a text can produce another match, for example between two masks.
_MAX_ROUNDS: Final = 4

#: The end of a name whose value is secret, in front of `=` or `:`.  Tokens of pages are no secrets.
NAME: Final = (
    r"(?:password|passwd|passwort|kennwort|passphrase|passcode|pwd|secret|credentials?|jwt"
    r"|(?<!page)(?<!page[-_ ])(?<!next)(?<!next[-_ ])(?<!cursor[-_ ])(?<!continuation[-_ ])token"
    r"|(?:api|access|private|secret|signing|encryption)[-_ ]?key"
    r"|(?<![A-Za-z])(?:t?otp|cvv2?|cvc2?|pin(?:[-_ ]?code)?))"
)
#: The names of command-line options with a secret value.
_FLAG: Final = (
    r"(?<![\w-])--?(?:[A-Za-z0-9]{1,30}[-_]){0,5}?"
    r"(?:password|passwd|passphrase|pass|pwd|secret|(?<!page[-_])(?<!next[-_])token"
    r"|(?:api|access|private|secret)[-_]?key|t?otp|pin|credentials?)"
)
#: Words after the name of an option in a sentence: "the --token option is required".
_SENTENCE: Final = (
    r"(?!(?:a|an|and|are|argument|as|at|because|before|but|by|can|did|does|file|flag|for|from|has|"
    r"if|in|instead|into|is|it|must|not|of|on|option|or|parameter|setting|should|so|that|the|then|"
    r"this|to|value|was|when|which|will|with|without)\b)"
)
#: Commands with the password directly after -p, and with a space in between.
_COMMAND: Final = r"\b(?:mysql|mariadb)[\w-]{0,20}\b[^\n|;&]{0,300}?\s-p"
_SPACED_COMMAND: Final = (
    r"\b(?:(?:sshpass|mongo\w{0,10}|7z[ar]?|login)\b[^\n|;&]{0,300}?\s-p"
    r"|redis-cli\b[^\n|;&]{0,300}?\s-a|ldap\w{1,10}\b[^\n|;&]{0,300}?\s-w)"
)
_IS: Final = r"\s{0,5}[=:\uff1d\uff1a]\s{0,5}"
_VALUE: Final = r"(?:\"([^\"\n]{1,500})|'([^'\n]{1,500})|([^\s\"'-][^\s\"']{0,500}))"

PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,60}-----)?"
)
#: The last matching group, if any, is the secret.
_PATTERNS: Final[tuple[re.Pattern[str], ...]] = (
    PRIVATE_KEY,
    re.compile(r"(?<=://)[^\s/:@]{0,100}:([^\s/@]{1,200})@"),
    # A token in place of an account.
    re.compile(r"(?<=://)(?=[^\s/:@]{0,200}\d)([^\s/:@]{16,200})@"),
    # Not “basic knowledge”: credentials have digits, end in "=" or have three parts.
    re.compile(
        r"\b(?:Bearer|Basic)\s{1,5}"
        r"(?=[A-Za-z._~+/-]{0,200}[0-9=]|[A-Za-z_-]{1,200}\.[A-Za-z_-]{1,200}\.[A-Za-z_-])"
        r"([A-Za-z0-9._~+/=-]{6,})",
        re.IGNORECASE,
    ),
    re.compile(
        r"\bAuthori[sz]ation[\"']?\s{0,5}[:=]\s{0,5}[\"']?"
        r"(?:Basic|Bearer|Token|ApiKey|Digest|Negotiate)\s{1,5}([^\s\"',;]{1,2000})",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:Set-)?Cookie\s{0,5}:\s{0,5}([^\s=;]{1,100}=[^\r\n\"']{1,2000})", re.IGNORECASE
    ),
    re.compile(rf"{NAME}[=\uff1d]([^\s\"',;&]{{1,500}})", re.IGNORECASE),
    # Also in JSON within JSON, whose quotation marks are escaped.
    re.compile(rf"{NAME}\\{{0,7}}[\"']?{_IS}\\{{0,7}}(?=\"([^\"\n]{{1,500}}))", re.IGNORECASE),
    re.compile(rf"{NAME}[\"']?{_IS}(?='([^'\n]{{1,500}}))", re.IGNORECASE),
    # Not “password: changed”: the value has a digit, a sign or a capital letter inside.
    re.compile(
        rf"{NAME}{_IS}(?=[^\s\"',;&]{{0,200}}(?:[0-9!@#$%^*~]|(?-i:[a-z][A-Z])))"
        r"([^\s\"',;&]{4,500})",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:IDENTIFIED\s{1,5}BY|PASSWORD)\s{1,5}'([^'\n]{1,200})'", re.IGNORECASE),
    # Command lines.
    re.compile(rf"{_FLAG}(?:=|\s{{1,5}}{_SENTENCE}){_VALUE}", re.IGNORECASE),
    re.compile(
        r"(?<!\S)(?:-u|--(?:proxy-)?user)(?:=|\s{0,5})[\"']?(?!\d+:\d+\b)"
        r"[^\s:\"'=-][^\s:\"']{0,100}:([^\s\"'/][^\s\"']{0,500})"
    ),
    re.compile(rf"{_COMMAND}{_VALUE}"),
    re.compile(rf"{_SPACED_COMMAND}\s{{0,5}}{_VALUE}"),
    # Addresses of webhooks: to know one is enough to call it.
    re.compile(r"://(?:web)?hooks?\.[^\s/\"'<>]{1,250}/([^\s\"'<>]{1,500})", re.IGNORECASE),
    re.compile(
        r"://[^\s/\"'<>]{1,250}/services/T[A-Z0-9]{0,20}/B[A-Z0-9]{0,20}/([^\s\"'<>]{1,300})"
    ),
    re.compile(
        r"://[^\s/\"'<>]{1,250}/(?:[^\s\"'<>]{0,100}/)?webhook(?:s/\d{1,30}|b2)/([^\s\"'<>]{1,500})",
        re.IGNORECASE,
    ),
    re.compile(r"[?&](?:sig|signature|x-amz-(?:signature|credential))=([^\s&#\"']{8,500})", re.I),
    # Tokens with a known form.
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(
        r"\b(?:gh[opsru]_|github_pat_|xox[abeprs]-|glpat-|npm_|hvs\.|ya29\.|AIza|SG\.)[\w.-]{10,}"
    ),
    re.compile(r"\b(?:sk|rk)[-_][\w-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bhp_[a-z0-9]{8}_[\w-]{40,}"),
    re.compile(r"\bbot\d{6,12}:[\w-]{20,}"),
)


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions of likely secrets in `text` as ordered, disjoint [start, end) pairs.

    It finds less than `workflows.common.redaction.redact`, because reviewers have to read
    addresses, card numbers and digests.
    """
    if len(text) < 8:
        return []
    return list(_long_text_spans(text)) if len(text) > _LONG_TEXT else _find_spans(text)


def mask_secrets(text: str) -> str:
    """Return `text` with its secrets masked; a masked text stays as it is."""
    for _ in range(_MAX_ROUNDS):
        masked = _MASKS_IN_A_ROW.sub(DOTS, _mask_once(text))
        if masked == text:
            break
        text = masked
    return text


def _masked(longest: int) -> AfterValidator:
    """Return the validator of a text of at most `longest` characters; a mask can be longer."""
    return AfterValidator(lambda text: mask_secrets(text)[:longest])


#: A text that is stored.
Masked = Annotated[str, AfterValidator(mask_secrets)]
#: A title, a text of several lines, and a comment, as they are stored.
MaskedTitle = Annotated[str, Field(max_length=200), _masked(200)]
MaskedText = Annotated[str, Field(max_length=4000), _masked(4000)]
MaskedComment = Annotated[str, Field(max_length=10_000), _masked(10_000)]

#: Characters that format text and are not shown.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|[\U000e0001-\U000e007f]"
)
_MASKS_IN_A_ROW: Final = re.compile(rf"{DOTS}•+")


def _mask_once(text: str) -> str:
    for start, end in reversed(secret_spans(text)):
        text = f"{text[:start]}{DOTS}{text[end:]}"
    return text


# Keyed by the text; bounded by 16 texts; never stale, because the result depends only on the key.
@lru_cache(maxsize=16)
def _long_text_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Cache the spans of a long text: a search takes tenths of a second, several times per page."""
    return tuple(_find_spans(text))


def _find_spans(text: str) -> list[tuple[int, int]]:
    spans = [*_matches(text)]
    if not unicodedata.is_normalized("NFKC", text) or _INVISIBLE.search(text):
        plain, positions = _plain_letters(text)
        if plain != text:
            spans += [
                (positions[start], positions[end - 1] + 1)
                for start, end in _matches(plain)
                if start < end
            ]
    return merge_spans(spans)


def _matches(text: str) -> Iterator[tuple[int, int]]:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield match.span(match.lastindex or 0)


def _plain_letters(text: str) -> tuple[str, list[int]]:
    """Return the text without invisible characters and with plain letters for wide ones.

    The second value is the position in `text` of each character. A name such as `password` with a
    zero-width space in it, or in fullwidth letters, reads the same to a person.
    """
    letters, positions = [], []
    for position, character in enumerate(text):
        if unicodedata.category(character) == "Cf":
            continue
        for letter in unicodedata.normalize("NFKC", character):
            letters.append(letter)
            positions.append(position)
    return "".join(letters), positions


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans, merge overlapping ones and drop empty ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged
