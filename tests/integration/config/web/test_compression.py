"""What is compressed for browsers and clients, and what is not."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from reviews.templatetags.desk import stylesheet_url
from tests.integration.workflows.api.conftest import reviewed_plan
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db
GZIP = {"accept-encoding": "gzip"}


@pytest.fixture
def reviewer() -> User:
    user = User.objects.create_user("ann")
    user.groups.add(group_of("reviewer"))
    return user


@pytest.fixture
def desk(reviewer: User) -> Client:
    client = Client()
    client.force_login(reviewer)
    return client


def whole(response: Any) -> bytes:
    return response.getvalue() if response.streaming else response.content


def test_pages_and_files_are_compressed(desk: Client) -> None:
    files = ("/static/reviews/js/decision.js", "/static/reviews/icons.svg", stylesheet_url())
    for path in ("/review/", *files):
        plain = desk.get(path)
        assert "Content-Encoding" not in plain
        small = desk.get(path, headers=GZIP)
        assert (small.status_code, small["Content-Encoding"]) == (200, "gzip"), path
        assert "Accept-Encoding" in small["Vary"]
        sent, size = whole(small), len(whole(plain))
        assert len(sent) < size / 2
        assert len(gzip.decompress(sent)) == pytest.approx(size, rel=0.02)


def test_parts_of_files_are_sent_as_they_are(desk: Client) -> None:
    part = desk.get("/static/reviews/js/decision.js", headers={**GZIP, "range": "bytes=0-499"})
    assert part.status_code == 206
    assert "Content-Encoding" not in part
    assert len(whole(part)) == 500


def test_a_version_is_taken_as_compressed_responses_state_it(reviewer: User) -> None:
    reviewer.groups.add(group_of("operator"))
    stock_catalogue()
    execution = start_execution(actor=reviewer, plan=reviewed_plan())
    version = run_to_rest(execution.pk).version
    _, text = create_token(user=reviewer, name="t", scopes=["read", "run"])
    client = Client(headers={**GZIP, "authorization": f"Bearer {text}"})
    path = f"/api/v1/executions/{execution.pk}/"
    shown = client.get(path)
    assert (shown["Content-Encoding"], shown["ETag"]) == ("gzip", f'W/"{version}"')
    assert client.get(path, headers={"if-none-match": shown["ETag"]}).status_code == 304
    command = {"kind": "abort", "reason": "enough"}
    aborted = client.post(
        f"{path}commands/", command, "application/json", headers={"if-match": shown["ETag"]}
    )
    assert aborted.status_code == 200, aborted.content
