"""The search finds what a user may see, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from reviews.audit.history import Filters, filtered, records
from reviews.decisions import services
from reviews.queue.filters import QueueFilters, apply_filters
from reviews.search.selectors import search
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.pages import browser
from workflows.models import Execution, Hold, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
SECRET = "zanzibar"


def found(user: User, q: str) -> dict[str, list[str]]:
    return {group.key: [each.url for each in group.results] for group in search(user, q)}


@pytest.fixture
def hold(start: Start, operator: User) -> Hold:
    """An open review of a run with a masked input, for the reviewers."""
    arguments = {"password": SECRET, "path": "x.md"}
    Workflow.objects.create(name="lighthouse", title="Lighthouse report", plan={"tasks": []})
    return only_hold(start(echo("beacon", arguments, phase=BEFORE), title="Lighthouse run"))


def decide(hold: Hold, user: User, comment: str) -> None:
    services.decide(
        services.DecisionRequest(
            hold_id=hold.id,
            user=user,
            version=hold.execution.version,
            source="web",
            decision="REJECT",
            comment=comment,
        )
    )


def test_every_kind_is_found(hold: Hold, reviewer: User, auditor: User, operator: User) -> None:
    review = f"/review/{hold.execution_id}/{hold.pk}/"
    run = f"/runs/{hold.execution_id}/"
    for user in (reviewer, auditor, operator):
        assert found(user, "beacon") == {"reviews": [review]}
        for q in ("lighthouse run", "LIGHT", str(hold.execution_id), f"#{hold.execution_id}"):
            matches = found(user, q)
            assert (matches["reviews"], matches["runs"]) == ([review], [run])
    workflow = Workflow.objects.get(name="lighthouse")
    assert found(reviewer, "lighthouse report") == {"workflows": [f"/workflows/{workflow.pk}/"]}
    assert found(reviewer, "builtin.echo")["tools"] == ["/tools/builtin.echo/"]
    decide(hold, reviewer, "too bright")
    records = found(auditor, "bright")["records"]
    assert len(records) == 1
    assert records[0].startswith("/history/")
    assert found(auditor, str(hold.execution_id))["records"] == records
    assert "reviews" not in found(auditor, "beacon")


def test_nothing_invisible_is_found(hold: Hold, reviewer: User, make_user: MakeUser) -> None:
    stranger = make_user("stranger", "legal")
    decide(hold, reviewer, "too bright")
    for q in ("lighthouse run", "beacon", "bright", str(hold.execution_id), "reviewer"):
        assert not {"reviews", "runs", "records", "people"} & set(found(stranger, q))


def test_masked_values_neither_match_nor_show(hold: Hold, reviewer: User, auditor: User) -> None:
    for user in (reviewer, auditor):
        assert found(user, SECRET) == {}
        for q in ("lighthouse", "beacon", str(hold.execution_id)):
            shown = browser(user).get("/search/", {"q": q})
            assert shown.status_code == 200
            assert SECRET not in shown.content.decode()


def test_a_masked_part_of_a_comment_does_not_match(
    hold: Hold, reviewer: User, auditor: User
) -> None:
    decide(hold, reviewer, "use password=zanzibar2zanzibar2 instead")
    for q in ("zanzibar", "zanzibar2zanzibar2", "use zanzibar2"):
        assert "records" not in found(auditor, q)
    assert len(found(auditor, "use instead")["records"]) == 1


def test_no_list_matches_a_masked_part_of_a_comment(
    hold: Hold, reviewer: User, auditor: User
) -> None:
    decide(hold, reviewer, "use password=zanzibar2zanzibar2 instead")
    decided = Hold.objects.filter(pk=hold.pk)
    for q, count in (("zanzibar", 0), ("use zanzibar2zanzibar2", 0), ("use instead", 1)):
        assert filtered(records(auditor), Filters(q=q)).count() == count
        assert apply_filters(decided, QueueFilters(q=q), decided=True).count() == count


def test_people_are_found_by_those_who_see_their_decisions(
    reviewer: User, auditor: User, make_user: MakeUser
) -> None:
    make_user("ann", "reviewer", first_name="Annette", email="hidden@example.com")
    assert found(reviewer, "ann") == {}
    assert found(auditor, "annette")["people"] == ["/history/?reviewer=ann"]
    assert "people" not in found(auditor, "hidden@example.com")
    admin = make_user("root", "admin", is_staff=True)
    admin.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert found(admin, "ann")["people"][0].startswith("/admin/auth/user/")


def test_a_long_group_leads_to_its_list(start: Start, auditor: User) -> None:
    for number in range(6):
        start(echo("a"), title=f"Harbour {number}")
    (group,) = search(auditor, "harbour")
    assert len(group.results) == 5
    assert group.more_url == "/runs/?q=harbour"
    newest = Execution.objects.latest("pk")
    assert group.results[0].url == f"/runs/{newest.pk}/"


@pytest.mark.parametrize("q", ["", "   ", "\0", "%", "'", "😀", "9" * 40, "x" * 500, ":* & |"])
def test_any_text_is_answered(auditor: User, q: str) -> None:
    answer = browser(auditor).get("/search/", {"q": q})
    assert answer.status_code == 200
    assert Client().get("/search/", {"q": q}).status_code == 302
