"""Starting, reading and forking executions over REST."""

from typing import Any

import pytest
from django.db import connection

from tests.integration.workflows.api.conftest import BearerFor, plain_plan, reviewed_plan
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, Workflow

pytestmark = pytest.mark.django_db
URL = "/api/v1/executions/"


def test_a_plan_is_started_and_shown(bearer, catalogue) -> None:
    client = bearer("operator")
    response = client.post(URL, {"plan": reviewed_plan(), "inputs": {"a": 1}, "title": "Mine"})
    assert response.status_code == 201, response.content
    body = response.json()
    assert response["Location"] == f"{URL}{body['id']}/"
    assert isinstance(body["id"], str)
    assert (body["status"], body["version"], body["title"]) == ("PENDING", 0, "Mine")
    assert body["created_by"] == "operator"
    assert body["workflow"] is None
    assert body["inputs"] == {"a": 1}
    assert [task["id"] for task in body["tasks"]] == ["draft", "use"]
    assert body["holds"] == []
    assert client.get(response["Location"]).json() == body


def test_a_workflow_that_was_deleted_meanwhile_is_not_started(people, catalogue) -> None:
    stale = Workflow.objects.create(name="echo", title="Echo", plan=plain_plan())
    Workflow.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as at the commit
    with pytest.raises(InvalidRequest, match="'echo' was deleted meanwhile"):
        services.start_execution(actor=people["operator"], workflow=stale)


def test_the_answer_to_a_start_needs_few_statements_and_has_the_marks_of_a_get(
    bearer, catalogue, django_assert_max_num_queries
) -> None:
    client = bearer("operator")
    inputs = {"the_password": "correct horse", "token": "battery staple"}
    client.post(URL, {"plan": plain_plan()})  # the use of the token is noted
    with django_assert_max_num_queries(15):
        response = client.post(URL, {"plan": reviewed_plan(), "inputs": inputs})
    body = response.json()
    assert client.get(response["Location"]).json() == body
    assert len(body["masked"]) == 2


@pytest.mark.parametrize("by", ["name", "pk"])
def test_a_workflow_is_started_by_name_or_id(bearer, workflow, by) -> None:
    named = str(getattr(workflow, by))
    response = bearer("integrator").post(URL, {"workflow": named, "inputs": {"n": 2}})
    assert response.status_code == 201
    body = response.json()
    assert (body["workflow"], body["title"], body["inputs"]) == ("echo", "Echo", {"n": 2})
    assert body["policy"]["four_eyes"] is False


def test_a_policy_overrides_the_workflows(bearer, workflow) -> None:
    body = {"workflow": "echo", "policy": {"hil": {"enabled": True}}}
    policy = bearer("operator").post(URL, body).json()["policy"]
    assert policy["hil"]["enabled"] is True
    assert policy["four_eyes"] is False


def test_a_disabled_workflow_is_not_started(bearer, workflow) -> None:
    workflow.enabled = False
    workflow.save()
    response = bearer("operator").post(URL, {"workflow": "echo"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["code"] == "unknown_workflow"
    assert Execution.objects.count() == 0


def echo(**fields: Any) -> list[Any]:
    return [{"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {}, **fields}]


BAD_PLANS: list[tuple[Any, str, str]] = [
    (echo(tool="no.such"), "plan.tasks[0].tool", "unknown_tool"),
    (
        echo(arguments={"value": {"$from": "b"}}),
        "plan.tasks[0].arguments.value.$from",
        "bad_reference",
    ),
    (echo(), "plan.tasks[0].arguments.value", "schema_mismatch"),
    ([{"id": "a", "type": "tool"}], "plan.tasks[0].tool", "missing"),
    ([{"id": "a", "type": "magic"}], "plan.tasks[0]", "union_tag_invalid"),
]


@pytest.mark.parametrize(("tasks", "path", "code"), BAD_PLANS)
def test_a_bad_plan_is_refused_at_its_field(bearer, catalogue, tasks, path, code) -> None:
    response = bearer("operator").post(URL, {"plan": {"tasks": tasks}})
    assert response.status_code == 422
    error = response.json()["errors"][0]
    assert (error["path"], error["code"]) == (path, code)


def test_an_intent_becomes_a_plan_or_names_the_nearest_tools(bearer, catalogue) -> None:
    client = bearer("operator")
    body = {"intent": "list the entries of a directory", "inputs": {"path": "."}}
    response = client.post(URL, body)
    assert response.status_code == 201, response.content
    assert response.json()["title"] == body["intent"]
    assert response.json()["tasks"][0]["target"] == "builtin.list_directory"
    refused = client.post(URL, {"intent": "brew a cup of peppermint tea"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "intent"
    assert refused.json()["errors"][0]["code"] == "no_plan"
    too_long = client.post(URL, {"intent": "x" * 2001})
    assert too_long.status_code == 422
    assert too_long.json()["errors"][0]["path"] == "intent"


def test_a_paused_execution_shows_its_holds(bearer, start) -> None:
    execution = start("operator")
    response = bearer("reviewer").get(f"{URL}{execution.pk}/")
    body = response.json()
    assert response["ETag"] == f'"{body["version"]}"'
    assert body["status"] == "PAUSED_FOR_REVIEW"
    assert (body["paused_node_id"], body["paused_phase"]) == ("draft", "AFTER_EXECUTION")
    (hold,) = body["holds"]
    assert (hold["status"], hold["node_id"], hold["reason"]) == ("OPEN", "draft", "node_review")
    assert hold["payload"] == {"text": "hello"}
    draft, use = body["tasks"]
    assert (draft["hold_id"], use["hold_id"]) == (hold["id"], None)
    assert (draft["attempts"], len(draft["tries"]), use["attempts"]) == (1, 1, 0)
    assert use["status"] == "PENDING"


def test_a_finished_execution_shows_its_outputs(bearer, start) -> None:
    execution = start("operator", plain_plan(2))
    body = bearer("operator").get(f"{URL}{execution.pk}/").json()
    assert (body["status"], body["paused_node_id"]) == ("COMPLETED", None)
    assert [task["output"] for task in body["tasks"]] == [0, 1]
    assert [task["status"] for task in body["tasks"]] == ["SUCCEEDED", "SUCCEEDED"]
    assert body["finished_at"] is not None


def test_the_list_is_filtered_and_paged(bearer, start, workflow, people) -> None:
    paused = start("operator")
    done = [start("admin", plain_plan()) for _ in range(3)]
    named = start("operator", plan=None, run=False)
    client = bearer("operator")

    def ids(query: str) -> list[str]:
        return [each["id"] for each in client.get(f"{URL}?{query}").json()["results"]]

    assert ids("status=PAUSED_FOR_REVIEW") == [str(paused.pk)]
    assert ids("status=COMPLETED") == [str(each.pk) for each in reversed(done)]
    assert ids("created_by=me") == [str(named.pk), str(paused.pk)]
    assert ids("created_by=admin&status=COMPLETED") == [str(each.pk) for each in reversed(done)]
    assert ids("workflow=echo") == []
    one = services.start_execution(actor=people["operator"], workflow=workflow, plan=None)
    assert ids("workflow=echo") == [str(one.pk)]
    first = client.get(f"{URL}?page_size=2").json()
    second = client.get(first["next"]).json()
    third = client.get(second["next"]).json()
    seen = [each["id"] for page in (first, second, third) for each in page["results"]]
    assert seen == ids("")
    assert third["next"] is None
    assert first["results"][0].keys() >= {"id", "status", "version", "paused_node_id"}


@pytest.mark.parametrize("count", [1, 5])
def test_the_list_takes_a_constant_number_of_queries(
    bearer, start, django_assert_max_num_queries, count
) -> None:
    for _ in range(count):
        start("operator")
    client = bearer("operator")
    with django_assert_max_num_queries(8):
        assert len(client.get(URL).json()["results"]) == count


def test_checkpoints_and_a_fork_from_one(bearer, start) -> None:
    execution = start("operator", plain_plan(3))
    client = bearer("operator")
    points = client.get(f"{URL}{execution.pk}/checkpoints/").json()["results"]
    assert [point["layer"] for point in points] == [2, 1, 0]
    body = {"checkpoint": points[2]["id"], "edits": {"context": {"note": "again"}}}
    response = client.post(f"{URL}{execution.pk}/fork/", body)
    assert response.status_code == 201, response.content
    fork = response.json()
    assert (fork["parent"], fork["forked_at_layer"]) == (str(execution.pk), 0)
    assert fork["context"] == {"note": "again"}
    assert run_to_rest(int(fork["id"])).status == "COMPLETED"
    numbers = client.post(f"{URL}{execution.pk}/fork/", {"checkpoint": int(points[0]["id"])})
    assert numbers.status_code == 201


@pytest.mark.parametrize("edits", [None, {}, {"inputs": None, "context": None}])
def test_a_fork_without_edits_reuses_everything(bearer, start, edits) -> None:
    client = bearer("operator")
    started = client.post(URL, {"plan": plain_plan(2), "inputs": {"n": 1}}).json()
    execution = run_to_rest(int(started["id"]))
    point = client.get(f"{URL}{execution.pk}/checkpoints/").json()["results"][-1]
    answer = client.post(f"{URL}{execution.pk}/fork/", {"checkpoint": point["id"], "edits": edits})
    assert answer.status_code == 201, answer.content
    fork = answer.json()
    assert (fork["inputs"], fork["context"]) == ({"n": 1}, point["context"])


def test_messages_are_listed_in_order_with_their_author(bearer, start) -> None:
    execution = start("operator")
    url = f"{URL}{execution.pk}/messages/"
    first = bearer("operator").post(url, {"content": " Why? "})
    assert first.status_code == 200
    assert first.json()["outcome"] == "applied"
    bearer("reviewer").post(url, {"content": "Because."})
    said = bearer("auditor").get(url).json()["results"]
    assert [(each["role"], each["content"], each["author"]) for each in said] == [
        ("user", " Why? ", "operator"),
        ("user", "Because.", "reviewer"),
    ]
    assert said[0]["seq"] < said[1]["seq"] == first.json()["version"] + 1


@pytest.mark.parametrize("role", ["assistant", "tool"])
def test_commanding_a_run_allows_speaking_as_its_agent(bearer, start, role: str) -> None:
    execution = start("operator")
    url, body = f"{URL}{execution.pk}/messages/", {"content": "Because.", "role": role}
    refused = bearer("reviewer").post(url, body)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert bearer("operator").post(url, body).status_code == 200
    (said,) = bearer("auditor").get(url).json()["results"]
    assert (said["role"], said["author"]) == (role, "operator")


def test_commanding_a_run_allows_calling_its_agent(bearer, start) -> None:
    execution = start("operator")
    url, body = f"{URL}{execution.pk}/messages/", {"content": "Look.", "ask_agent": True}
    assert bearer("reviewer").post(url, body).status_code == 403
    without = bearer("operator").post(url, body)
    assert (without.status_code, without.json()["code"]) == (409, "refused")
    policy = {"ail": {"enabled": True, "decision_points": "manual"}}
    started = bearer("operator").post(URL, {"plan": reviewed_plan(), "policy": policy}).json()
    said = bearer("operator").post(f"{URL}{started['id']}/messages/", body)
    assert said.status_code == 200
    kinds = (
        Execution.objects.get(pk=started["id"])
        .events.order_by("seq")
        .values_list("kind", flat=True)
    )
    assert list(kinds) == ["message_added", "agent_requested"]


def test_a_finished_run_takes_no_message(bearer, start) -> None:
    execution = start("operator", plain_plan())
    response = bearer("operator").post(f"{URL}{execution.pk}/messages/", {"content": "hello"})
    assert response.status_code == 409
    assert (response.json()["code"], response.json()["reason"]) == ("refused", "final")


def test_events_come_in_pages_without_a_gap(bearer, start) -> None:
    execution = start("operator", plain_plan(2))
    client = bearer("auditor")
    seen: list[int] = []
    url: str | None = f"{URL}{execution.pk}/events/?limit=3"
    while url:
        page = client.get(url).json()
        assert page["version"] == execution.version
        seen += [event["seq"] for event in page["results"]]
        url = page["next"]
    assert seen == list(range(1, execution.version + 1))
    after = client.get(f"{URL}{execution.pk}/events/?after={execution.version - 1}").json()
    assert [event["type"] for event in after["results"]] == ["workflow_complete"]
    header = client.get(f"{URL}{execution.pk}/events/", headers={"Last-Event-ID": "2"})
    assert header.json()["results"][0]["seq"] == 3


@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=99999999999999999999", "limit=0"])
def test_an_invalid_start_position_is_named(bearer, start, query) -> None:
    execution = start("operator", plain_plan())
    response = bearer("operator").get(f"{URL}{execution.pk}/events/?{query}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == query.split("=")[0]


def test_a_plan_of_two_thousand_tasks_starts(bearer: BearerFor, catalogue: None) -> None:
    def task(number: int) -> dict[str, Any]:
        value = {"$from": f"t{number - 100}"} if number >= 100 else {"row": number, "of": [1, 2]}
        arguments = {"value": value}
        return {
            "id": f"t{number}", "type": "tool", "tool": "builtin.echo", "arguments": arguments,
        }  # fmt: skip

    plan = {"tasks": [task(number) for number in range(2_000)]}
    client = bearer("operator")
    started = client.post("/api/v1/executions/", {"plan": plan}, format="json")
    assert started.status_code == 201, started.content[:500]
    workflow = {"name": "big", "title": "Big", "plan": plan}
    made = bearer("admin").post("/api/v1/workflows/", workflow, format="json")
    assert made.status_code == 201, made.content[:500]
    many = {"plan": {"tasks": []}, "inputs": {"rows": [0] * 100_000}}
    refused = client.post("/api/v1/executions/", many, format="json")
    assert refused.status_code == 400
    assert "more than 100000 values" in refused.json()["errors"][0]["message"]
