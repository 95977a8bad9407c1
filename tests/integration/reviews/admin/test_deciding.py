"""Reviews decided in the admin: the form, the actions, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from graphrag.models import Tool
from reviews.models import HumanReviewRecord, ReviewClaim
from tests.integration.reviews.conftest import echo
from tests.support.run_files import put_in_next_runs
from workflows.models import Execution, Grant, Hold

pytestmark = pytest.mark.django_db

LIST = reverse("admin:workflows_hold_changelist")
ACTIONS = reverse("admin:workflows_hold_bulk")
SECRET = "hunter2-abcdef-0123456789"


def page(hold: Hold) -> str:
    return reverse("admin:workflows_hold_change", args=(hold.pk,))


def before(start: Any, *names: str) -> list[Hold]:
    review = {"phase": "BEFORE_EXECUTION", "on_reject": "skip"}
    run = start(*(echo(name, **review) for name in names or ("a",)))
    return list(run.holds.order_by("opened_seq"))


def answer(hold: Hold, decision: str, **fields: str) -> dict[str, str]:
    return {
        "decision": decision,
        "version": str(Execution.objects.get(pk=hold.execution_id).version),
        "mode": "json",
        **fields,
    }


def selected(*holds: Hold) -> list[str]:
    return [f"{hold.pk}@{hold.execution.version}" for hold in holds]


def texts(response: Any) -> str:
    return " ".join(str(message) for message in response.context["messages"])


# --- the form -------------------------------------------------------------------------------------


def test_the_change_form_is_the_decision_form(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    client = staff("reviewer")
    text = client.get(page(hold)).content.decode()
    assert "data-decision-form" in text
    assert f'action="{page(hold)}"' in text
    assert reverse("reviews:decision", args=(hold.execution_id, hold.pk)) in text
    assert 'class="rail"' in text
    edited = {"edits_json": json.dumps({"value": "better"})}
    assert client.post(page(hold), answer(hold, "APPROVE", **edited)).status_code == 200
    sent = answer(hold, "APPROVE", confirmed="yes", **edited)
    response = client.post(page(hold), sent)
    assert response.status_code == 303
    assert response["Location"] == page(hold)
    record = HumanReviewRecord.objects.get()
    assert (record.actor, record.decision, record.is_edited) == ("staff-reviewer", "APPROVE", True)
    assert record.modified_data == {"value": "better"}


def test_a_decided_review_is_read_only_and_links_its_record(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    client = staff("reviewer")
    client.post(page(hold), answer(hold, "REJECT", comment="no"))
    text = client.get(page(hold)).content.decode()
    assert 'name="decision"' not in text
    assert reverse("reviews:record", args=(HumanReviewRecord.objects.get().pk,)) in text
    again = client.post(page(hold), answer(hold, "APPROVE"))
    assert again.status_code == 409
    assert HumanReviewRecord.objects.count() == 1


def test_a_stale_version_shows_the_conflict(staff: Any, start: Any) -> None:
    hold, _ = before(start, "a", "b")
    response = staff("reviewer").post(page(hold), answer(hold, "APPROVE", version="1"))
    assert response.status_code == 409
    assert HumanReviewRecord.objects.count() == 0


def test_the_permission_is_needed_besides_the_group(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    client = staff("reviewer")
    permission = Permission.objects.get(codename="decide_hold")
    for group in permission.group_set.all():
        group.permissions.remove(permission)
    text = client.get(page(hold)).content.decode()
    assert 'name="decision"' not in text
    assert client.post(page(hold), answer(hold, "APPROVE")).status_code == 403
    sent = {"action": "claim", "hold": selected(hold)}
    assert client.post(ACTIONS, sent).status_code == 403
    assert HumanReviewRecord.objects.count() == ReviewClaim.objects.count() == 0


def test_the_group_is_needed_besides_the_permission(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    for role in ("auditor", "operator"):
        client = staff(role)
        user = User.objects.get(username=f"staff-{role}")
        user.user_permissions.add(Permission.objects.get(codename="decide_hold"))
        assert client.post(page(hold), answer(hold, "APPROVE")).status_code == 403
        client.post(ACTIONS, {"action": "approve", "hold": selected(hold)})
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN


def test_forms_beside_the_decision_return_to_the_admin(
    staff: Any, start: Any, settings: Any
) -> None:
    """Claim, extend and undo without JavaScript."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "undo_seconds": 600}
    review = {"phase": "BEFORE_EXECUTION", "timeout_seconds": 600}
    hold = start(echo("a", **review), echo("b", **review)).holds.order_by("opened_seq").first()
    client = staff("reviewer")
    text = client.get(page(hold)).content.decode()
    place = (hold.execution_id, hold.pk)
    flag = '<input type="hidden" name="in_admin" value="yes">'
    posts = {
        reverse("reviews:claim", args=place): {"action": "claim"},
        reverse("reviews:extend", args=place): {"seconds": "3600"},
    }
    assert text.count(flag) == len(posts)
    for url, fields in posts.items():
        assert f'action="{url}"' in text
        assert client.post(url, {**fields, "in_admin": "yes"})["Location"] == page(hold)
        assert client.post(url, fields)["Location"] == reverse("reviews:decision", args=place)
    client.post(page(hold), answer(hold, "APPROVE"))
    undo = reverse("reviews:withdraw", args=place)
    text = client.get(page(hold)).content.decode()
    assert f'action="{undo}"' in text
    assert f'hx-post="{undo}"' not in text
    assert flag in text
    assert client.post(undo, {"in_admin": "yes"})["Location"] == page(hold)
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN


CLOSED = "http://127.0.0.1:9/page"
CALL: dict[str, Any] = {
    "id": "a",
    "type": "code_execution",
    "language": "python",
    "code": "fetch(url)",
    "inputs": {"url": CLOSED},
    "permission_set": "minimal",
}
LISTING = {"id": "a", "type": "tool", "tool": "builtin.list_directory", "arguments": {"path": "."}}
REPLAN = {
    "when": "results.a.output.files[?ends_with(@, '.xml')]",
    "decision": "replan",
    "requirement": "parse XML files",
}
REST = echo("b", {"$from": "a"})
#: Kind of hold: tasks, policy, a text of its form, and the fields that its approval sends.
KINDS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str, dict[str, str]]] = {
    "layer_approval": (
        [echo("a"), REST],
        {"hil": {"enabled": True, "approval_required": "always"}},
        "builtin.echo",
        {},
    ),
    "escalation": ([CALL, REST], {}, 'name="grant_scope"', {"grant_scope": "execution"}),
    "replan_review": (
        [LISTING, REST],
        {
            "ail": {"enabled": True, "agent": "rules", "settings": {"rules": [REPLAN]}},
            "replan_review": True,
        },
        'name="keep"',
        {},
    ),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", KINDS)
def test_every_other_kind_of_review_is_approved_at_its_admin_address(
    staff: Any, start: Any, settings: Any, tmp_path: Any, kind: str
) -> None:
    put_in_next_runs(tmp_path, {"notes.xml": "<notes/>"})
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    tasks, policy, shown, fields = KINDS[kind]
    hold = start(*tasks, policy=policy).holds.get(status=Hold.Status.OPEN)
    assert hold.reason == kind
    client = staff("reviewer")
    opened = client.get(page(hold))
    assert opened.status_code == 200
    text = opened.content.decode()
    assert f'action="{page(hold)}"' in text
    assert shown in text
    if kind == "replan_review":
        fields = {"keep": list(hold.payload["added"])}
    response = client.post(page(hold), answer(hold, "APPROVE", **fields))
    assert (response.status_code, response["Location"]) == (303, page(hold))
    record = HumanReviewRecord.objects.get()
    assert (record.actor, record.decision, record.is_edited) == ("staff-reviewer", "APPROVE", False)
    hold.refresh_from_db()
    assert hold.status == Hold.Status.APPROVED
    if kind == "escalation":
        assert Grant.objects.get(hold=hold).scope == Grant.Scope.EXECUTION
    assert 'name="decision"' not in client.get(page(hold)).content.decode()


# --- the list -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "policy", "shown"),
    [
        (False, {}, "path: a.md · amount: 5"),
        (True, {}, "serial: X1 · path: a.md"),
        (True, {"key_arguments": ["value.mode"]}, "mode: w · serial: X1"),
    ],
)
def test_the_list_shows_the_layer_and_the_key_arguments_of_the_queue(
    staff: Any, start: Any, key: bool, policy: dict[str, Any], shown: str
) -> None:
    """By the workflow's setting, by the tool's schema and by known names, in this order."""
    value = {"mode": "w", "serial": "X1", "amount": 5, "path": "a.md"}
    hold = start(echo("a", value, phase="BEFORE_EXECUTION"), policy=policy).holds.get()
    if key:
        serial = {"properties": {"serial": {"x-key": True}}}
        tool = Tool.objects.filter(name="builtin.echo")
        tool.update(input_schema={"properties": {"value": serial}})
    client = staff("reviewer")
    text = client.get(LIST).content.decode()
    assert f'<td class="field-arguments">{shown}</td>' in text
    assert '<td class="field-layer_number">1/1</td>' in text
    asked = client.post(LIST, {"action": "claim", "_selected_action": [hold.pk]})
    assert [row["arguments"] for row in asked.context["rows"]] == [shown]


# --- actions --------------------------------------------------------------------------------------


def test_actions_ask_first_and_then_decide_each_review(staff: Any, start: Any) -> None:
    holds = before(start, "a", "b")
    client = staff("reviewer")
    ids = [hold.pk for hold in holds]
    asked = client.post(LIST, {"action": "approve", "_selected_action": ids})
    assert asked.status_code == 200
    values = [row["value"] for row in asked.context["rows"]]
    assert values == selected(*holds)
    assert HumanReviewRecord.objects.count() == 0
    done = client.post(ACTIONS, {"action": "approve", "hold": values}, follow=True)
    assert texts(done).count("Approved.") == 2
    assert {row.source for row in HumanReviewRecord.objects.all()} == {"bulk"}


def test_high_risk_is_never_approved_by_an_action(staff: Any, start: Any) -> None:
    run = start(
        {
            "id": "w",
            "type": "tool",
            "tool": "builtin.write_file",
            "arguments": {"path": "a.txt", "content": "x"},
            "human_review": {"trigger_phase": "BEFORE_EXECUTION"},
        }
    )
    hold = run.holds.get()
    assert hold.critical
    done = staff("reviewer").post(
        ACTIONS, {"action": "approve", "hold": selected(hold)}, follow=True
    )
    assert "High risk" in texts(done)
    assert HumanReviewRecord.objects.count() == 0


def test_a_rejection_needs_a_reason(staff: Any, start: Any) -> None:
    holds = before(start, "a", "b")
    client = staff("reviewer")
    response = client.post(ACTIONS, {"action": "reject", "hold": selected(*holds)})
    assert response.status_code == 422
    assert len(response.context["rows"]) == 2
    sent = {"action": "reject", "hold": selected(*holds), "comment": "wrong"}
    client.post(ACTIONS, sent)
    assert [row.comment for row in HumanReviewRecord.objects.all()] == ["wrong", "wrong"]


def test_changes_are_requested_with_a_text(staff: Any, start: Any) -> None:
    run = start(echo("a", phase="AFTER_EXECUTION", max_change_requests=2))
    hold = run.holds.get()
    client = staff("reviewer")
    sent = {"action": "request_changes", "hold": selected(hold)}
    assert client.post(ACTIONS, sent).status_code == 422
    done = client.post(ACTIONS, {**sent, "comment": "shorter"}, follow=True)
    assert "Changes requested." in texts(done)
    assert HumanReviewRecord.objects.get().decision == "REQUEST_CHANGES"


def test_changes_of_two_reviews_of_one_run_are_requested(staff: Any, start: Any) -> None:
    """The first one moves the run on; the second is decided at the version that follows."""
    review = {"phase": "AFTER_EXECUTION", "max_change_requests": 2}
    holds = list(start(echo("a", **review), echo("b", **review)).holds.order_by("opened_seq"))
    assert len(holds) == 2
    sent = {"action": "request_changes", "hold": selected(*holds), "comment": "shorter"}
    done = staff("reviewer").post(ACTIONS, sent, follow=True)
    assert texts(done).count("Changes requested.") == 2
    decided = HumanReviewRecord.objects.values_list("node_id", "decision")
    assert set(decided) == {("a", "REQUEST_CHANGES"), ("b", "REQUEST_CHANGES")}


def test_reviews_are_claimed_and_assigned(staff: Any, start: Any, reviewer2: User) -> None:
    (hold,) = before(start)
    client = staff("reviewer")
    client.post(ACTIONS, {"action": "claim", "hold": selected(hold)})
    assert ReviewClaim.objects.get().user.username == "staff-reviewer"
    asked = client.post(LIST, {"action": "assign", "_selected_action": [hold.pk]})
    assert asked.context["people"] == ["reviewer2", "staff-reviewer"]
    sent = {"action": "assign", "hold": selected(hold), "to": "reviewer2"}
    client.post(ACTIONS, sent)
    assert ReviewClaim.objects.get().user == reviewer2
    wrong = client.post(ACTIONS, {**sent, "to": "operator"}, follow=True)
    assert "is nobody who can decide this review" in texts(wrong)


def test_deadlines_are_extended(staff: Any, start: Any) -> None:
    run = start(echo("a", phase="BEFORE_EXECUTION", timeout_seconds=600))
    hold = run.holds.get()
    was = hold.expires_at
    client = staff("reviewer")
    client.post(ACTIONS, {"action": "extend", "hold": selected(hold), "hours": "2"})
    hold.refresh_from_db()
    assert (hold.expires_at - was).total_seconds() == 7200
    wrong = client.post(
        ACTIONS, {"action": "extend", "hold": selected(hold), "hours": "x"}, follow=True
    )
    assert "must be between" in texts(wrong)


def test_an_old_version_is_refused_in_an_action(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    sent = {"action": "reject", "hold": [f"{hold.pk}@1"], "comment": "no"}
    done = staff("reviewer").post(ACTIONS, sent, follow=True)
    assert "moved on" in texts(done)
    assert HumanReviewRecord.objects.count() == 0


def test_actions_take_posts_of_known_actions_only(staff: Any, start: Any) -> None:
    client = staff("reviewer")
    assert client.get(ACTIONS).status_code == 405
    assert client.post(ACTIONS, {"action": "withdraw", "hold": "1-1@1"}).status_code == 404
    assert client.post(ACTIONS, {"action": "claim"}).status_code == 422


# --- what the admin does not show -----------------------------------------------------------------


@pytest.fixture
def secret(start: Any) -> Hold:
    run = start(
        echo("a", {"password": SECRET, "note": "plain"}, phase="BEFORE_EXECUTION"),
        inputs={"password": SECRET},
    )
    return run.holds.get()


@pytest.mark.parametrize("role", ["reviewer", "auditor", "operator", "admin", "root"])
def test_masked_values_stay_masked(staff: Any, secret: Hold, role: str) -> None:
    client = staff(role)
    run = reverse("admin:workflows_execution_change", args=(secret.execution_id,))
    history = reverse("admin:workflows_hold_history", args=(secret.pk,))
    pages = (reverse("admin:index"), LIST, page(secret), run, history)
    for url in pages:
        response = client.get(url)
        assert response.status_code == 200, url
        assert SECRET not in response.content.decode(), url


def test_a_decided_secret_stays_masked_in_its_record(staff: Any, secret: Hold) -> None:
    client = staff("reviewer")
    client.post(page(secret), answer(secret, "APPROVE"))
    record = HumanReviewRecord.objects.get()
    url = reverse("admin:reviews_humanreviewrecord_change", args=(record.pk,))
    text = client.get(url).content.decode()
    assert "the record is intact" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    "query",
    [
        "payload__password__startswith=h",
        "payload__icontains=hunter2",
        "execution__inputs__password__startswith=h",
        "execution__created_by__password__startswith=a",
        "_to_field=payload",
    ],
)
def test_lookups_do_not_guess_hidden_values(staff: Any, secret: Hold, query: str) -> None:
    assert staff("reviewer").get(f"{LIST}?{query}").status_code in (302, 400)


@pytest.mark.parametrize(
    "query",
    [
        "workflow/?default_inputs__password__startswith=a",
        "workflow/?plan__icontains=a",
        "workflow/?name__regex=[",
        "hold/?opened_at__regex=[",
        "hold/?opened_at__year=99999999999999999999",
        "hold/?reason=%00",
        "hold/?state=all&phase=%00",
        "execution/?status__regex=[",
        "execution/?status__exact=%00",
    ],
)
def test_query_strings_take_the_lookups_of_filters_only(staff: Any, query: str) -> None:
    assert staff("reviewer").get(f"/admin/workflows/{query}").status_code in (302, 400)


def test_a_search_does_not_find_hidden_values(staff: Any, secret: Hold) -> None:
    assert b"0 reviews" in staff("reviewer").get(f"{LIST}?q={SECRET}").content


@pytest.mark.parametrize("suffix", ["", "?_popup=1", "?_to_field=id"])
def test_reviews_of_other_groups_are_not_there(staff: Any, start: Any, suffix: str) -> None:
    run = start(echo("a", phase="BEFORE_EXECUTION", groups=["legal"]))
    hold = run.holds.get()
    client = staff("reviewer")
    assert b"list-empty" in client.get(f"{LIST}{suffix}").content
    for name in ("change", "history", "delete"):
        url = reverse(f"admin:workflows_hold_{name}", args=(hold.pk,))
        assert client.get(url + suffix).status_code in (302, 403)
    assert client.post(page(hold), answer(hold, "APPROVE")).status_code == 403
    asked = client.post(LIST, {"action": "approve", "_selected_action": [hold.pk]})
    assert asked.status_code == 302 or asked.context["rows"] == []
    done = client.post(ACTIONS, {"action": "approve", "hold": selected(hold)}, follow=True)
    assert "Not found." in texts(done)
    run_page = reverse("admin:workflows_execution_change", args=(run.pk,))
    assert client.get(run_page).status_code == 302
    assert client.post(run_page, {"kind": "abort", "reason": "x"}).status_code == 403
    auto = reverse("admin:autocomplete")
    ask = f"{auto}?app_label=workflows&model_name=hold&field_name=previous&term="
    assert client.get(ask).json()["results"] == []
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN


# --- runs and records -----------------------------------------------------------------------------


def test_a_run_takes_commands_from_those_who_may_send_them(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    url = reverse("admin:workflows_execution_change", args=(hold.execution_id,))
    abort = {"kind": "abort", "reason": "enough"}
    for role in ("reviewer", "auditor"):
        assert staff(role).post(url, abort).status_code == 403
    operator = staff("operator")
    assert "svg" in operator.get(url).content.decode()
    assert operator.post(url, abort).status_code == 303
    assert Execution.objects.get(pk=hold.execution_id).status == "ABORTED"


def test_the_list_of_runs_shows_the_status_and_no_stored_state(staff: Any, start: Any) -> None:
    before(start)
    text = staff("operator").get(reverse("admin:workflows_execution_changelist")).content.decode()
    assert "waits for review" in text
    assert "holds_opened" not in text
    assert ">PAUSED_FOR_REVIEW<" not in text


def test_a_run_is_forked_inside_the_admin(staff: Any, start: Any) -> None:
    later = {**echo("b", phase="BEFORE_EXECUTION"), "depends_on": ["a"]}
    run = start(echo("a"), later)
    page_of_run = reverse("admin:workflows_execution_change", args=(run.pk,))
    fork = reverse("admin:workflows_execution_fork", args=(run.pk, 0))
    sent = {"mode": "json", "inputs_json": "{}", "context_json": "{}"}
    for role in ("reviewer", "auditor"):
        client = staff(role)
        assert fork not in client.get(page_of_run).content.decode()
        assert client.get(fork).status_code == client.post(fork, sent).status_code == 403
    operator = staff("operator")
    assert fork in operator.get(page_of_run).content.decode()
    form = operator.get(fork).content.decode()
    assert f'action="{fork}"' in form
    assert page_of_run in form
    assert 'class="rail"' in form
    wrong = operator.post(fork, {**sent, "context_json": "["})
    assert wrong.status_code == 422
    made = operator.post(fork, sent)
    assert made.status_code == 303
    new = Execution.objects.get(parent=run)
    assert made["Location"] == reverse("admin:workflows_execution_change", args=(new.pk,))
    assert operator.get(fork.replace("/fork/0/", "/fork/7/")).status_code == 404


def test_a_command_that_would_be_refused_says_why(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    url = reverse("admin:workflows_execution_change", args=(hold.execution_id,))
    response = staff("operator").get(url)
    refused = response.context["run"]["refused"]
    assert refused
    for each in refused:
        assert each["reason"]
        assert f'id="why-{each["kind"]}"' in response.content.decode()
    assert "why-continue" not in staff("auditor").get(url).content.decode()


def test_records_are_exported(staff: Any, start: Any) -> None:
    holds = before(start, "a", "b")
    reviewer = staff("reviewer")
    reviewer.post(ACTIONS, {"action": "approve", "hold": selected(*holds)})
    url = reverse("admin:reviews_humanreviewrecord_changelist")
    ids = list(HumanReviewRecord.objects.values_list("pk", flat=True))
    sent = {"action": "export_jsonl", "_selected_action": ids[:1]}
    lines = b"".join(staff("auditor").post(url, sent).streaming_content).decode().splitlines()
    header = json.loads(lines[0])
    assert (header["kind"], header["rows"]) == ("holdpoint.history", 1)


def test_records_are_filtered_by_where_they_were_decided(staff: Any, start: Any) -> None:
    holds = before(start, "a", "b")
    staff("reviewer").post(ACTIONS, {"action": "approve", "hold": selected(*holds)})
    url = reverse("admin:reviews_humanreviewrecord_changelist")
    source = HumanReviewRecord.objects.values_list("source", flat=True).first()
    auditor = staff("auditor")
    shown = auditor.get(url, {"source": source}).context["cl"]
    assert shown.result_count == 2
    assert auditor.get(url, {"source": "slack"}).context["cl"].result_count == 0
    (choices,) = [spec for spec in shown.filter_specs if spec.title == "source"]
    assert [name for _, name in choices.lookup_choices][:2] == ["Desk", "Admin"]


# --- the first page -------------------------------------------------------------------------------


def test_the_index_counts_and_links(staff: Any, start: Any) -> None:
    (hold,) = before(start)
    response = staff("operator").get(reverse("admin:index"))
    cards = {str(card["label"]): card["count"] for card in response.context["cards"]}
    assert cards["Waiting reviews"] == "1"
    assert cards["Overdue reviews"] == "0"
    assert set(cards) >= {"Escalated reviews", "Failed runs", "Workers", "Jobs in queues"}
    assert [row["url"] for row in response.context["oldest"]] == [page(hold)]
    for card in response.context["cards"]:
        assert staff("root", name=card["label"]).get(card["url"]).status_code == 200


def test_readers_of_people_see_no_hash(staff: Any, operator: User) -> None:
    url = reverse("admin:auth_user_change", args=(operator.pk,))
    assert "algorithm" in staff("root").get(url).content.decode()
    text = staff("auditor").get(url).content.decode()
    assert "operator" in text
    assert "algorithm" not in text


def test_sections_have_names_for_people(staff: Any, operator: User) -> None:
    text = staff("root").get(reverse("admin:index")).content.decode()
    for name in ("People and access", "Integrations", "System", "Pending reviews", "API tokens"):
        assert name in text
    raw = ("Django_Rq", "Api tokens", "Django-RQ", "Graphrag", "Human review records")
    assert [each for each in raw if each in text] == []
    url = reverse("admin:auth_user_change", args=(operator.pk,))
    text = staff("root", name=url).get(url).content.decode()
    assert ">review | " in text
    assert [each for each in ("Django_Rq", "Axes |", "Tool graph |") if each in text] == []


def test_the_rail_offers_sections_by_permission(staff: Any) -> None:
    """People and access: the accounts, or the section of those who may not see accounts."""
    people, section = (
        reverse("admin:auth_user_changelist"),
        reverse("admin:section", args=("people",)),
    )
    entries = {"auditor": people, "operator": section, "reviewer": ""}
    for role, entry in entries.items():
        client = staff(role)
        for url in (reverse("admin:index"), reverse("reviews:queue")):
            text = client.get(url).content.decode()
            rail = text[text.index('class="rail"') : text.index("</nav>")]
            offered = [each for each in (people, section) if f'"{each}"' in rail]
            assert offered == ([entry] if entry else [])
            assert ("People and access" in rail) is bool(entry)
        assert not entry or client.get(entry).status_code == 200
