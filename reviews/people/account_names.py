"""Names of accounts: which ones nobody may have, because they read as somebody else's.

No rule compares names, but people read them.  `ReviewsConfig` adds `check_account_name` to the
validators of the user name, which forms, the admin and `createsuperuser` run; OpenID Connect and
SCIM call it themselves.
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
    """Whether the name has letters of two scripts, such as a Cyrillic letter in a Latin word."""
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in name if letter.isalpha()}
    other = scripts - _EAST_ASIAN
    return len(other) > 1


def check_account_name(name: str) -> None:
    """Raise ValidationError for a name that no account may have."""
    if (plain := plain_name(name)) != name:
        raise ValidationError(_("Write the name as %(name)s.") % {"name": plain})
    if is_reserved(name):
        raise ValidationError(_("%(name)s is a reserved name.") % {"name": name})
    if mixes_scripts(name):
        raise ValidationError(_("The name mixes letters of different alphabets."))
