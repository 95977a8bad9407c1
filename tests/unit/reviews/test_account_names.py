"""Names that no account may have."""

import pytest
from django.core.exceptions import ValidationError

from reviews.people.account_names import check_account_name

REFUSED = [
    *("system", "System", "SYSTEM", "me", "Me", "agent", "sweeper", "timeout", "rule", "-system"),
    # Fullwidth letters, Cyrillic and Greek letters in Latin words, and whole words that look Latin.
    *("ｓystem", "ѕystem", "rеviewer", "οperator", "ме", "mе", "syst3m"),  # noqa: RUF001
]
ALLOWED = ["ann", "Ann-Marie", "o.brien@example.com", "анна", "άννα", "山田taro", "systems"]


def test_reserved_names_and_look_alikes_are_refused() -> None:
    accepted = []
    for name in REFUSED:
        try:
            check_account_name(name)
        except ValidationError:
            continue
        accepted.append(name)
    assert accepted == []


@pytest.mark.parametrize("name", ALLOWED)
def test_other_names_are_allowed(name: str) -> None:
    check_account_name(name)
