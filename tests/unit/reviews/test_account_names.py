"""Names that no account may have."""

import pytest
from django.core.exceptions import ValidationError

from reviews.people.account_names import check_account_name

REFUSED = [
    *("system", "System", "SYSTEM", "me", "Me", "agent", "sweeper", "timeout", "rule", "-system"),
    # Fullwidth letters, Cyrillic and Greek letters in Latin words, and whole words that look Latin.
    *("ｓystem", "ѕystem", "rеviewer", "οperator", "ме", "mе", "syst3m"),  # noqa: RUF001
    # Letters that nobody sees, small capitals and other rare letters, digits of other scripts.
    *("system\u1160", "sys\u115ftem", "ann\u1160", "ꜱystem", "sʏstem", "worĸer", "ɑnna"),  # noqa: RUF001
    *("h\u0665ldpoint", "h\u07c0ldpoint", "b\u0665b"),
]
ALLOWED = [
    *("ann", "Ann-Marie", "o.brien@example.com", "анна", "άννα", "山田taro", "systems", "bob7"),
    *("Øystein", "Łukasz", "Jürgen", "ílmur", "ırmak", "Vəli", "Kɔfi", "김철수"),  # noqa: RUF001
    "علي\u0665",
]


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
