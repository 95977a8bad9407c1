"""Names of accounts and groups: which ones nobody may have, because they read as another's.

No rule compares names, but people read them.  `ReviewsConfig` adds `check_account_name` to the
validators of the user name, which forms, the admin and `createsuperuser` run; OpenID Connect
calls it itself.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

#: Names of the product's own actors, and words with a meaning where a user name is expected.
RESERVED: Final = frozenset(
    {
        *("agent", "anonymous", "external", "holdpoint", "me", "nobody", "rule", "rules"),
        *("simulation", "sweeper", "system", "time", "timeout", "worker"),
    }
)
#: Scripts that are written together.
_EAST_ASIAN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
#: Letters of other scripts, and rare Latin ones, that look like a plain Latin letter.
_LOOK_ALIKE: Final = str.maketrans(
    {
        **dict(zip("асԁеɡһіјкӏмопрԛгѕтυѵԝхуё", "acdeghijklmonpqrstuvwxye", strict=True)),
        **dict(zip("αεικνορτχɑı0135", "aeikvoptxaioles", strict=True)),  # noqa: RUF001
    }
)
#: Letters that are shown as nothing, although they count as letters.
_BLANK: Final = frozenset("\u115f\u1160")
#: First and last code point of the blocks of Latin letters for phonetics and old texts: small
#: capitals, script letters and others, most of which look like a plain letter.
_RARE_LATIN: Final = (
    (0x0250, 0x02AF), (0x1D00, 0x1DBF), (0x2C60, 0x2C7F), (0xA720, 0xA7FF), (0xAB30, 0xAB6F)
)  # fmt: skip
#: Letters of these blocks that alphabets of today have.
_ALPHABETS: Final = frozenset("əɓɗɖɛɔɣʋ")


def plain_name(name: str) -> str:
    """Return the name with compatibility characters replaced by the characters they look like.

    Otherwise "admin" in fullwidth letters would be a new name.
    """
    plain: str = get_user_model().normalize_username(name)
    return plain


def is_reserved(name: str) -> bool:
    """Whether the name is reserved, or looks like a reserved name."""
    lower = plain_name(name).lower()
    words = {lower, lower.translate(_LOOK_ALIKE)}
    return any(word.strip("@.+-_") in RESERVED for word in words)


def mixes_scripts(name: str) -> bool:
    """Whether the name has letters of two scripts, such as a Cyrillic letter in a Latin word.

    Digits of other scripts count as letters of theirs: some look like a Latin "o".
    """
    letters = (each for each in name if each.isalpha() or (each.isdigit() and not each.isascii()))
    scripts = {unicodedata.name(each, "").split(" ")[0].split("-")[0] for each in letters}
    other = scripts - _EAST_ASIAN
    return len(other) > 1


def has_odd_letters(name: str) -> bool:
    """Whether the name has letters that nobody sees, or rare ones that look like plain letters."""
    return any(each in _BLANK or _is_rare(each) for each in name.lower())


def _is_rare(letter: str) -> bool:
    if letter in _ALPHABETS:
        return False
    return letter == "ĸ" or any(first <= ord(letter) <= last for first, last in _RARE_LATIN)


def reading_of(name: str) -> str:
    """Return the same text for names that people read as the same name.

    Case, spaces at the ends and in a row, characters that are not shown, and letters that look
    alike make no difference.
    """
    plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    shown = (each for each in plain if each not in _BLANK and unicodedata.category(each) != "Cf")
    return " ".join("".join(shown).translate(_LOOK_ALIKE).split())


def check_account_name(name: str) -> None:
    """Raise ValidationError for a name that no account may have."""
    if (plain := plain_name(name)) != name:
        raise ValidationError(_("Write the name as %(name)s.") % {"name": plain})
    if is_reserved(name):
        raise ValidationError(_("%(name)s is a reserved name.") % {"name": name})
    if mixes_scripts(name):
        raise ValidationError(_("The name mixes letters of different alphabets."))
    if has_odd_letters(name):
        raise ValidationError(_("The name has a letter that is not shown, or looks like another."))
