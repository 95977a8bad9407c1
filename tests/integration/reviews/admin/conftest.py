"""Staff with the permissions that the set-up gives their group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.integration.reviews.conftest import MakeUser
from workflows.permissions.roles import ensure_roles

SignIn = Callable[..., Client]


@pytest.fixture
def staff(make_user: MakeUser) -> SignIn:
    """`staff("auditor")`: a client of a staff user of that name in that group."""
    ensure_roles()

    def sign_in(role: str, *, name: str = "") -> Client:
        user = make_user(
            name or f"staff-{role}",
            *([] if role == "root" else [role]),
            is_staff=True,
            is_superuser=role == "root",
        )
        client = Client()
        client.force_login(user)
        return client

    return sign_in
