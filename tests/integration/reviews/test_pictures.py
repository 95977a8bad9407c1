"""`make screenshots` shows every page: found here in seconds, there after minutes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.e2e.pictures import addresses
from tests.e2e.screenshots import routes_of
from tests.e2e.walk import unwalked

if TYPE_CHECKING:
    from tests.integration.reviews.conftest import MakeUser

pytestmark = pytest.mark.django_db


class NoStage:
    """Stands for the instance of the pictures: every run, hold and row of it has the number 1."""

    layer = plan_review = "1/1-1"
    product = SimpleNamespace(manage=lambda *_arguments: "/answer/#x")

    def __getattr__(self, _name: str) -> str:
        return "1"

    def number_of(self, _workflow: str) -> str:
        return "1"

    def record_of(self, _run: str) -> str:
        return "1"


def test_every_page_of_the_desk_has_a_picture(make_user: MakeUser) -> None:
    client = Client()
    client.force_login(make_user("root", is_superuser=True, is_staff=True))
    stage: Any = NoStage()
    seen = routes_of(addresses(stage))
    assert unwalked(seen, lambda path: client.get(path).status_code) == []
    assert unwalked(seen - {"reviews:absences"}, lambda path: client.get(path).status_code) == [
        "absences"
    ]
