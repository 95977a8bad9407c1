"""Extended deadlines: rights, bounds, and expired or decided holds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.queue import extensions
from tests.integration.reviews.api.test_api import Api
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.pages import review_path
from tests.support.pages import HTMX, Page, browser, open_page
from workflows.models import CommandLog, Execution, Hold
from workflows.realtime.event_serialization import wire_events

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
HOUR = 3600


@pytest.fixture
def paused(start: Start) -> Execution:
    return start(echo("a", phase=BEFORE, timeout_seconds=600))


def extend(hold: Hold, user: User, seconds: float = HOUR) -> extensions.Extension:
    return extensions.extend(hold_id=hold.id, user=user, seconds=seconds, source="test")


def test_an_extension_moves_the_deadline_and_is_an_event(paused: Execution, reviewer: User) -> None:
    hold = only_hold(paused)
    before = hold.expires_at
    result = extend(hold, reviewer)
    hold.refresh_from_db()
    assert before is not None
    assert hold.expires_at == result.expires_at == before + timedelta(hours=1)
    assert (result.outcome, result.version) == ("applied", paused.version + 1)
    event = wire_events(paused.pk, after=paused.version)[0]
    assert (event["type"], event["holdId"], event["seconds"]) == ("hold_extended", hold.id, HOUR)
    assert event["actor"] == "reviewer"
    assert "a was extended by 1 h" in open_page(reviewer, f"/runs/{paused.pk}/").text
    logged = CommandLog.objects.get(kind="extend_hold")
    assert (logged.actor, logged.outcome) == ("reviewer", "applied")


def test_an_extended_hold_does_not_expire_at_its_old_time(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE, timeout_seconds=0.01)))
    extend(hold, reviewer)
    assert services.expire_due() == 0
    hold.refresh_from_db()
    assert hold.status == "OPEN"


def test_a_hold_without_a_deadline_is_not_extended(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    with pytest.raises(Conflict) as refused:
        extend(hold, reviewer)
    assert refused.value.code == "no_deadline"
    assert "Extend by 1 hour" not in open_page(reviewer, review_path(hold)).names("button")


@pytest.mark.parametrize("seconds", [0, -1, 59, 2_592_001, float("nan"), float("inf")])
def test_the_seconds_are_bounded(paused: Execution, reviewer: User, seconds: float) -> None:
    with pytest.raises(ReviewInvalid):
        extend(only_hold(paused), reviewer, seconds)


def test_the_deadline_is_never_more_than_a_month_ahead(paused: Execution, reviewer: User) -> None:
    hold = only_hold(paused)
    extend(hold, reviewer, extensions.MAX_SECONDS - HOUR)
    with pytest.raises(ReviewInvalid):
        extend(hold, reviewer, HOUR)
    assert "Extend by 1 hour" not in open_page(reviewer, review_path(hold)).names("button")


def test_a_decided_hold_keeps_its_time(paused: Execution, reviewer: User) -> None:
    hold = only_hold(paused)
    decide(hold, reviewer)
    with pytest.raises(Conflict) as refused:
        extend(hold, reviewer)
    assert refused.value.code == "decided"


def test_only_deciders_extend(
    paused: Execution, auditor: User, operator: User, make_user: MakeUser
) -> None:
    hold = only_hold(paused)
    for user in (auditor, operator):
        with pytest.raises(NotAllowed):
            extend(hold, user)
        assert "Extend by 1 hour" not in open_page(user, review_path(hold)).names("button")
        posted = browser(user).post(f"{review_path(hold)}extend/", {"seconds": "3600"})
        assert posted.status_code == 403
    with pytest.raises(services.HoldNotFound):
        extend(hold, make_user("stranger", "other"))


# --- over REST ------------------------------------------------------------------------------------


def test_a_deadline_is_extended_over_rest(paused: Execution, reviewer: User, auditor: User) -> None:
    hold = only_hold(paused)
    path = f"holds/{hold.id}/extend/"
    answer = Api(reviewer).post(path, {"seconds": HOUR})
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["hold_id"], body["outcome"]) == (hold.id, "applied")
    assert body["version"] == paused.version + 1
    hold.refresh_from_db()
    assert hold.expires_at is not None
    assert body["expires_at"][:19] == hold.expires_at.isoformat()[:19]
    assert Api(reviewer).post(path, {"seconds": 5}).status_code == 422
    assert Api(reviewer).post(path, {"seconds": HOUR, "more": 1}).status_code == 422
    assert Api(reviewer, "read").post(path, {"seconds": HOUR}).status_code == 403
    assert Api(auditor).post(path, {"seconds": HOUR}).status_code == 403
    assert Api(reviewer).post("holds/0-0/extend/", {"seconds": HOUR}).status_code == 404


def test_rest_without_a_deadline_is_409(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    answer = Api(reviewer).post(f"holds/{hold.id}/extend/", {"seconds": HOUR})
    assert answer.status_code == 409
    assert "no deadline" in answer.json()["detail"]


# --- on the page ----------------------------------------------------------------------------------


def test_the_button_works_with_and_without_scripts(paused: Execution, reviewer: User) -> None:
    hold, client = only_hold(paused), browser(reviewer)
    path = f"{review_path(hold)}extend/"
    assert "Extend by 1 hour" in open_page(reviewer, review_path(hold)).names("button")
    plain = client.post(path, {"seconds": "3600"})
    assert (plain.status_code, plain.headers["Location"]) == (303, review_path(hold))
    part = client.post(path, {"seconds": "3600"}, headers=HTMX)
    assert "2 h left" in Page(part).text
    assert not Page(part).is_whole
    assert part.headers["HX-Trigger"] == "holdpoint:news"
    assert "2 h left" in open_page(reviewer, path, **HTMX).text
    refused = client.post(path, {"seconds": "soon"}, headers=HTMX)
    assert refused.status_code == 422
    (error,) = Page(refused).names("alert")
    assert "must be between" in error
    whole = client.post(path, {"seconds": ""}, follow=True)
    assert "must be between" in Page(whole).text


def test_an_invisible_hold_is_404(paused: Execution, make_user: MakeUser) -> None:
    path = f"{review_path(only_hold(paused))}extend/"
    client = browser(make_user("stranger", "other"))
    assert client.get(path).status_code == 404
    assert client.post(path, {"seconds": "3600"}).status_code == 404
