"""Names of accounts that OpenID Connect and SCIM create."""

from __future__ import annotations

from typing import Final

from django.contrib.auth import get_user_model

#: Names with a special meaning in places that expect a user name.
RESERVED: Final = frozenset({"system", "me"})


def plain_name(name: str) -> str:
    """Return the name with compatibility characters replaced by the characters they look like.

    Otherwise "admin" in fullwidth letters would be a new name.
    """
    plain: str = get_user_model().normalize_username(name)
    return plain
