"""Capabilities, grants and escalations over REST and on pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.test import APIClient

from tests.support.http_server import Server
from tests.support.pages import Page, browser, open_page
from workflows.models import Capability, Execution, Grant
from workflows.permissions.tokens import create_token

from .conftest import ANSWER, Desk, address, code, fetch, page, use

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ALL = ("read", "run", "decide")


def api(user: User, *scopes: str) -> APIClient:
    _, text = create_token(user=user, name="test", scopes=scopes or ALL)
    return APIClient(headers={"Authorization": f"Bearer {text}"})


# --- REST -----------------------------------------------------------------------------------------


def resume(client: APIClient, execution: Execution, **more: Any) -> Any:
    version = Execution.objects.get(pk=execution.pk).version
    body = {"execution_id": execution.pk, "node_id": "ask", "version": version, **more}
    return client.post("/api/v1/reviews/resume/", {"decision": "APPROVE", **body})


def test_a_grant_is_given_listed_and_revoked_over_rest(desk: Desk, web: Server) -> None:
    execution = desk.run(workflow=desk.workflow("nightly", fetch("ask", web)))
    reviewer = api(desk.reviewer)
    refused = resume(reviewer, execution, grant_scope="until")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "grant_scope"
    granted = resume(reviewer, execution, grant_scope="until", grant_seconds=60, comment="tonight")
    assert granted.status_code == 200
    desk.drive(execution)
    (row,) = reviewer.get("/api/v1/grants/").json()["results"]
    told = {key: row[key] for key in ("scope", "node_id", "workflow", "resource", "granted_by")}
    assert told == {
        "scope": "until",
        "node_id": "ask",
        "workflow": "nightly",
        "resource": address(web),
        "granted_by": "reviewer",
    }
    assert (row["why"], row["uses"], row["permissions"]["hosts"]) == ("tonight", 1, [address(web)])
    url = f"/api/v1/grants/{row['id']}/revoke/"
    assert api(desk.person("other", "reviewer")).post(url).status_code == 403
    assert api(desk.reviewer, "read").post(url).status_code == 403
    assert api(desk.person("stranger", "integrator")).post(url).status_code == 404
    assert reviewer.post(url).json()["revoked_by"] == "reviewer"
    assert reviewer.post(url).status_code == 409
    assert reviewer.get("/api/v1/grants/").json()["results"] == []
    assert len(reviewer.get("/api/v1/grants/?in_force=false").json()["results"]) == 1


def test_a_capability_is_created_over_rest(desk: Desk, web: Server) -> None:
    made = desk.run(code("add", "a + b", inputs={"a": 1, "b": 2}))
    body = {"execution_id": str(made.pk), "task_id": "add", "name": "adder"}
    operator = api(desk.operator)
    answer = operator.post("/api/v1/capabilities/", body)
    assert answer.status_code == 201
    assert answer["Location"] == "/api/v1/capabilities/adder/"
    found = operator.get("/api/v1/capabilities/adder/").json()
    assert (found["code"], found["approval_mode"], found["from_task"]) == ("a + b", "ask", "add")
    assert found["input_schema"]["required"] == ["a", "b"]
    again = operator.post("/api/v1/capabilities/", body)
    assert (again.status_code, again.json()["errors"][0]["path"]) == (422, "name")
    missing = operator.post("/api/v1/capabilities/", {**body, "task_id": "none", "name": "x"})
    assert missing.status_code == 409
    stranger = api(desk.person("stranger", "integrator"))
    assert stranger.post("/api/v1/capabilities/", {**body, "name": "y"}).status_code == 404
    assert api(desk.operator, "read").post("/api/v1/capabilities/", body).status_code == 403


def test_a_raised_capability_is_marked(desk: Desk, web: Server) -> None:
    desk.capability("page", "python", web)
    execution = desk.run(use("ask", "page", url=page(web)))
    assert resume(api(desk.reviewer), execution, grant_scope="capability").status_code == 200
    (row,) = api(desk.operator).get("/api/v1/capabilities/").json()["results"]
    assert row["permission_set"]["hosts"] == row["granted"]["hosts"] == [address(web)]
    events = api(desk.operator).get(f"/api/v1/executions/{execution.pk}/events/").json()
    kinds = [each["type"] for each in events["results"]]
    assert "capability.permission.updated" in kinds


# --- pages ----------------------------------------------------------------------------------------


def review(user: User, execution: Execution, hold_id: str) -> Page:
    return open_page(user, f"/review/{execution.pk}/{hold_id}/")


def test_the_page_shows_the_need_and_its_line(desk: Desk, web: Server) -> None:
    lines = ["# one", "# two", "text = fetch(url)['text']", "text + '<script>'"]
    execution = desk.run(code("ask", "\n".join(lines), inputs={"url": page(web)}))
    shown = review(desk.reviewer, execution, desk.hold(execution).pk)
    assert f"Connect to the private host 127.0.0.1 on port {web.port}." in shown.text
    assert any(address(web) in each for each in shown.names("insertion"))
    assert shown.attributes(".code-line.marked", "value") == ["3"]
    assert "<script>'" not in shown.html
    assert shown.texts("[style]") == []
    assert shown.attributes("[name=grant_scope]", "value") == ["task", "execution"]
    assert shown.fields("[data-decision-form]")["grant_scope"] == "task"


def test_long_code_is_shown_around_the_line(desk: Desk, web: Server) -> None:
    lines = [f"n{number} = {number}" for number in range(100)]
    lines[69] = "text = fetch(url)['text']"
    execution = desk.run(code("ask", "\n".join(lines), inputs={"url": page(web)}))
    shown = review(desk.reviewer, execution, desk.hold(execution).pk)
    assert "All 100 lines" in shown.text
    around = shown.attributes(".code-line", "value")[:-100]
    assert around[0] == "62"
    assert len(shown.texts("details .code-line")) == 100


def test_the_chosen_scope_is_what_is_granted(desk: Desk, web: Server) -> None:
    execution = desk.run(workflow=desk.workflow("nightly", fetch("ask", web)))
    hold = desk.hold(execution)
    client = browser(desk.reviewer)
    data = {
        "version": Execution.objects.get(pk=execution.pk).version,
        "decision": "APPROVE",
        "mode": "json",
        "comment": "tonight only",
        "grant_scope": "until",
        "grant_seconds": "86400",
    }
    answer = client.post(f"/review/{execution.pk}/{hold.pk}/", data)
    assert answer.status_code == 303
    grant = Grant.objects.get()
    assert (grant.scope, grant.why) == ("until", "tonight only")
    assert grant.expires_at is not None
    assert round((grant.expires_at - grant.granted_at).total_seconds()) == 86_400
    execution = desk.drive(execution)
    assert desk.output(execution, "ask") == ANSWER
    sentence = "It was granted for task ask in every run of nightly and used 1 time."
    assert sentence in review(desk.reviewer, execution, hold.pk).text


def test_an_unknown_scope_in_a_form_becomes_the_narrowest(desk: Desk, web: Server) -> None:
    execution = desk.run(fetch("ask", web))
    hold, version = desk.hold(execution), Execution.objects.get(pk=execution.pk).version
    data = {"version": version, "decision": "APPROVE", "mode": "json", "grant_scope": "everything"}
    browser(desk.reviewer).post(f"/review/{execution.pk}/{hold.pk}/", data)
    assert Grant.objects.get().scope == "task"


def test_grants_are_listed_and_revoked_on_the_page(desk: Desk, web: Server) -> None:
    execution = desk.run(fetch("ask", web))
    desk.decide(desk.hold(execution))
    client, auditor = browser(desk.reviewer), desk.person("auditor", "auditor")
    grants = open_page(desk.reviewer, "/grants/")
    assert f"127.0.0.1 on port {web.port}" in grants.text
    url = f"/grants/{Grant.objects.get().pk}/revoke/"
    assert url in grants.actions
    assert url not in open_page(auditor, "/grants/").actions
    assert browser(auditor).post(url).status_code == 303
    assert Grant.objects.get().revoked_at is None
    assert client.post(url).status_code == 303
    assert Grant.objects.get().revoked_by == "reviewer"
    assert "No grants in force" in open_page(desk.reviewer, "/grants/").names("heading")
    assert "revoked by reviewer" in open_page(desk.reviewer, "/grants/?all=1").text
    stranger = browser(desk.person("stranger", "integrator"))
    assert stranger.post(url).status_code == 404


def test_a_capability_is_created_on_the_page(desk: Desk) -> None:
    made = desk.run(code("add", "a + b", inputs={"a": 1, "b": 2}))
    client = browser(desk.operator)
    url = f"/runs/{made.pk}/capability/"
    assert url in open_page(desk.operator, f"/runs/{made.pk}/").actions
    answer = client.post(url, {"task_id": "add", "name": "add"})
    assert answer["Location"] == "/tools/capability.add/"
    assert client.get(answer["Location"]).status_code == 200
    assert Capability.objects.get().code == "a + b"
    again = client.post(url, {"task_id": "add", "name": "add"}, follow=True)
    assert "there is a capability" in Page(again).text
    reviewer = browser(desk.reviewer)
    assert reviewer.post(url, {"task_id": "add", "name": "x"}).status_code in (403, 404)
