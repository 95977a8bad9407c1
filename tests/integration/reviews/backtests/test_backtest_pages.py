"""The pages and endpoints of backtests, published rules and skipped reviews."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from reviews.backtests import jobs as backtests_jobs
from reviews.models import Backtest
from tests.integration.reviews.backtests.test_backtests import SMALL, Past, done, past
from tests.integration.reviews.conftest import MakeUser
from tests.support.pages import Page, browser, open_page
from workflows.models import RuleVersion
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["past"]

BEFORE = "BEFORE_EXECUTION"
BAD = {"name": "x", "skip_when": "["}
FORM = {"name": "small", "task": "a", "skip_when": "inputs.value < `10`"}


def posted(client: Client, past: Past, **more: Any) -> Any:
    return client.post("/insights/backtest/", {"workflow": past.workflow.pk, **FORM, **more})


def test_a_draft_becomes_a_report_and_the_rules_in_force(past: Past) -> None:
    rejected = past.decided(1, decision="REJECT", comment="no").records.get()
    past.decided(2)
    client = browser(past.operator)
    answer = posted(client, past)
    made = Backtest.objects.get()
    assert answer.status_code == 303
    assert answer["Location"] == f"/insights/backtest/{made.pk}/"
    assert "Waiting for a worker" in open_page(past.operator, answer["Location"]).text
    backtests_jobs.advance(made.pk)
    assert client.get(f"{answer['Location']}progress/")["HX-Refresh"] == "true"
    report = client.get(answer["Location"])
    assert (report.context["found"].spared, report.context["found"].rejected) == (2, 1)
    page = Page(report)
    assert "These rules would have skipped 2 of 2 reviews." in page.text
    assert "1 of them had been edited or rejected." in page.text
    assert f"/history/{rejected.pk}/" in page.links
    answer = client.post(f"/insights/backtest/{made.pk}/publish/", {"comment": "for a week"})
    assert answer["Location"] == f"/workflows/{past.workflow.pk}/rules/"
    page = open_page(past.operator, answer["Location"])
    assert "for a week" in page.text
    assert f"/insights/backtest/{made.pk}/" in page.links
    assert past.run(3).status == "COMPLETED"
    (skipped,) = client.get("/history/spared/").context["rows"]
    assert skipped.quote == "the condition of rule small v1 holds"
    assert skipped.quote in open_page(past.operator, "/history/spared/").text
    assert "1 review skipped by a rule" in open_page(past.operator, "/insights/").text


def test_a_draft_is_checked_and_previewed_while_it_is_edited(past: Past, auditor: User) -> None:
    past.decided({"n": 1, "password": "hunter2"})
    client = browser(auditor)
    body = {"workflow": past.workflow.pk, "skip_when": "inputs.value.n == `1`"}
    check = client.post("/insights/backtest/check/", body)
    (example,) = check.context["examples"]
    assert (example["spared"], example["outcome"]) == (True, "approved")
    assert "was approved unchanged" in Page(check).text
    assert "hunter2" not in Page(check).html
    check = client.post("/insights/backtest/check/", {**body, "skip_when": "["})
    assert "rules[0].skip_when" in Page(check).text
    check = client.post("/insights/backtest/check/", {**body, "phase": BEFORE})
    assert not check.context["examples"]
    assert "No past review" in Page(check).text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": ""}, "rules[0].name"),
        ({"skip_when": "["}, "rules[0].skip_when"),
        ({"skip_when": "x" * 2001}, "rules[0].skip_when"),
        ({"skip_when": ""}, "rules[0]"),
        ({"sample": "120"}, "sample"),
        ({"sample": "x"}, "sample"),
        ({"task": "nobody"}, "rules[0].tasks[0]"),
        ({"from": "soon"}, "from"),
        ({"from": "2026-02-30"}, "from"),
        ({"from": "2026-02-02", "to": "2026-01-01"}, "to"),
        ({"workflow": "x"}, "workflow"),
        ({"workflow": ""}, "workflow"),
        ({"workflow": "9" * 30}, "workflow"),
    ],
)
def test_an_invalid_draft_is_explained_and_preserved(
    past: Past, more: dict[str, str], said: str
) -> None:
    answer = posted(browser(past.operator), past, **more)
    assert answer.status_code == 422
    assert said in Page(answer).texts("[role=alert] .mono")
    assert not Backtest.objects.exists()


def test_kept_rules_stay_and_a_reused_name_replaces_its_rule(past: Past) -> None:
    first = done(past.operator, past.workflow, SMALL, {"name": "b", "sample": 0.5})
    client = browser(past.operator)
    client.post(f"/insights/backtest/{first.pk}/publish/")
    posted(client, past, keep=["small", "b"], sample="20")
    posted(client, past, keep=["b"], name="new")
    one, two = Backtest.objects.exclude(pk=first.pk).order_by("pk")
    assert [(rule["name"], rule.get("sample")) for rule in one.rules] == [
        ("small", 0.2),
        ("b", 0.5),
    ]
    assert [rule["name"] for rule in two.rules] == ["b", "new"]


def test_auditors_draft_and_read_but_do_not_publish(past: Past, auditor: User) -> None:
    made = done(auditor, past.workflow, SMALL)
    client = browser(auditor)
    page = open_page(auditor, f"/insights/backtest/{made.pk}/")
    assert "Operators and admins can publish rules." in page.text
    assert f"/insights/backtest/{made.pk}/publish/" not in page.actions
    assert client.post(f"/insights/backtest/{made.pk}/publish/").status_code == 403
    assert (
        client.post(
            f"/workflows/{past.workflow.pk}/rules/", {"number": "none", "seen": "0"}
        ).status_code
        == 403
    )
    assert not RuleVersion.objects.exists()


@pytest.mark.parametrize("group", ["reviewer", "integrator"])
def test_other_roles_see_the_rules_and_no_reports(
    past: Past, make_user: MakeUser, group: str
) -> None:
    made = done(past.operator, past.workflow, SMALL)
    client = browser(make_user("somebody", group))
    assert client.get("/insights/backtest/").status_code == 403
    assert posted(client, past).status_code == 403
    assert client.post("/insights/backtest/check/", FORM).status_code == 403
    assert client.get(f"/insights/backtest/{made.pk}/").status_code == 404
    assert client.get(f"/workflows/{past.workflow.pk}/rules/").status_code == 200
    assert client.post(f"/insights/backtest/{made.pk}/publish/").status_code == 404


def test_one_button_restores_an_older_version_and_one_removes_all_rules(past: Past) -> None:
    client, rules = browser(past.operator), f"/workflows/{past.workflow.pk}/rules/"
    for sample in (0.5, 0.1):
        made = done(past.operator, past.workflow, {"name": "some", "sample": sample})
        client.post(f"/insights/backtest/{made.pk}/publish/")
    assert "Publish v1 again" in open_page(past.operator, rules).names("button")
    client.post(rules, {"number": "1", "seen": "2"})
    assert RuleVersion.objects.get(number=3).republished == 1
    client.post(rules, {"number": "2", "seen": "2"})
    assert "Version 3 is active now" in Page(client.get(rules)).text
    client.post(rules, {"number": "none", "seen": "3"})
    assert RuleVersion.objects.get(number=4).rules == []
    for number, seen in (("x", "4"), ("9", "4"), ("1", "x"), ("", "")):
        assert client.post(rules, {"number": number, "seen": seen}).status_code == 303
    assert RuleVersion.objects.count() == 4


def test_rules_drafted_on_older_ones_are_not_published(past: Past) -> None:
    client = browser(past.operator)
    one, two = (done(past.operator, past.workflow, {**SMALL, "name": name}) for name in "ab")
    client.post(f"/insights/backtest/{one.pk}/publish/")
    page = open_page(past.operator, f"/insights/backtest/{two.pk}/")
    assert "Run the backtest again" in page.text
    client.post(f"/insights/backtest/{two.pk}/publish/")
    assert RuleVersion.objects.count() == 1


def test_hostile_text_is_escaped(past: Past) -> None:
    bad = "inputs.value == '<script>alert(1)</script>'"
    made = done(past.operator, past.workflow, {"name": "x", "skip_when": bad})
    client = browser(past.operator)
    for url in (f"/insights/backtest/{made.pk}/", "/insights/backtest/"):
        assert "<script>alert" not in client.get(url).content.decode()
    client.post(f"/insights/backtest/{made.pk}/publish/", {"comment": "<script>alert(2)</script>"})
    for url in (f"/workflows/{past.workflow.pk}/rules/", f"/workflows/{past.workflow.pk}/"):
        page = client.get(url)
        assert page.status_code == 200
        assert "<script>alert" not in page.content.decode()


def test_skipped_reviews_are_filtered_and_paged(past: Past, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "page_size": 2}
    made = done(past.operator, past.workflow, SMALL)
    client = browser(past.operator)
    client.post(f"/insights/backtest/{made.pk}/publish/")
    runs = [past.run(n).pk for n in range(3)]
    first = client.get("/history/spared/?rule=small&workflow=w")
    assert len(first.context["rows"]) == 2
    second = client.get(first.context["next_url"])
    assert [row.url.split("#")[0] for row in second.context["rows"]] == [f"/runs/{runs[0]}/"]
    assert not client.get("/history/spared/?rule=other").context["rows"]
    assert not browser(past.reviewer).get("/history/spared/").context["rows"], "not visible"
    assert client.get("/history/spared/?cursor=x").status_code == 404
    assert client.get("/history/spared/?rule=%00").status_code == 200


# --- REST -----------------------------------------------------------------------------------------


class Api:
    """A token's calls."""

    def __init__(self, user: User, *scopes: str) -> None:
        _, text = create_token(user=user, name="t", scopes=list(scopes))
        self.headers = {"Authorization": f"Bearer {text}"}

    def get(self, path: str) -> Any:
        return Client().get(f"/api/v1/{path}", headers=self.headers)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return Client().post(
            f"/api/v1/{path}",
            body,
            content_type="application/json",
            headers={**self.headers, **headers},
        )


def test_a_draft_becomes_a_report_and_active_rules_over_rest(past: Past) -> None:
    past.decided(1, edits=2)
    api = Api(past.operator, "read", "decide", "loosen")
    body = {"workflow": "w", "rules": [SMALL]}
    made = api.post("backtests/", body, **{"Idempotency-Key": "k"})
    assert (made.status_code, made.json()["status"], made.json()["report"]) == (201, "QUEUED", {})
    again = api.post("backtests/", body, **{"Idempotency-Key": "k"})
    assert again.json()["id"] == made.json()["id"]
    number = made.json()["id"]
    assert api.post("workflows/w/rules/", {"backtest": number}).status_code == 409
    backtests_jobs.advance(int(number))
    found = api.get(f"backtests/{number}/").json()
    assert (found["status"], found["report"]["spared"]["edited"]) == ("DONE", 1)
    assert [each["id"] for each in api.get("backtests/?workflow=w").json()["results"]] == [number]
    published = api.post("workflows/w/rules/", {"backtest": number, "comment": "yes"})
    assert published.status_code == 201
    assert published.json()["version"] == 1
    assert (published.json()["backtest"], published.json()["backtest_digest"]) == (
        number, found["digest"],
    )  # fmt: skip
    stale = api.post("workflows/w/rules/", {"backtest": number})
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_version")
    none = api.post("workflows/w/rules/", {"rules": [], "version": 1})
    assert (none.status_code, none.json()["rules"]) == (201, [])
    back = api.post("workflows/w/rules/", {"republish": 1, "version": 2})
    assert (back.json()["version"], back.json()["republished"]) == (3, 1)
    versions = api.get("workflows/w/rules/").json()["results"]
    assert [each["version"] for each in versions] == [3, 2, 1]


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("backtests/", {"workflow": "w", "rules": [BAD]}, "rules[0].skip_when"),
        ("backtests/", {"workflow": "nowhere", "rules": [SMALL]}, "workflow"),
        ("backtests/", {"workflow": "w", "rules": []}, "rules"),
        ("backtests/", {"workflow": "w", "rules": [SMALL], "since": "soon"}, "since"),
        ("backtests/", {"workflow": "w", "rules": [SMALL], "colour": 1}, "colour"),
        ("workflows/w/rules/", {}, "backtest"),
        ("workflows/w/rules/", {"backtest": "1", "republish": 1}, "republish"),
        ("workflows/w/rules/", {"republish": 1}, "version"),
        ("workflows/w/rules/", {"republish": 7, "version": 0}, "republish"),
        ("workflows/w/rules/", {"backtest": "x"}, "backtest"),
        ("workflows/w/rules/", {"rules": [SMALL], "version": 0}, "rules"),
    ],
)  # fmt: skip
def test_bad_bodies_are_named(past: Past, path: str, body: Any, where: str) -> None:
    answer = Api(past.operator, "read", "decide").post(path, body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == where


def test_a_token_needs_the_scope_to_decide(past: Past) -> None:
    """An agent's token could else spare the reviews of what it does itself."""
    made = done(past.operator, past.workflow, SMALL)
    api = Api(past.operator, "read", "run")
    assert api.post("workflows/w/rules/", {"backtest": str(made.pk)}).status_code == 403
    assert api.post("backtests/", {"workflow": "w", "rules": [SMALL]}).status_code == 403
    assert Api(past.reviewer, "read", "decide").get("backtests/").status_code == 403
    body = {"rules": [], "version": 0}
    assert Api(past.reviewer, "read", "decide").post("workflows/w/rules/", body).status_code == 403
