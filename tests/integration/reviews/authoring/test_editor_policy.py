"""Review policies in the plan editor: fields, errors, the simulation, and who sees which names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group

from reviews.authoring import policy_form, simulation
from reviews.decisions import services
from reviews.decisions.masking import mark
from reviews.templatetags.desk import dom_id
from tests.integration.reviews.authoring.test_editor import Editor, signed_in
from tests.integration.reviews.conftest import MakeUser
from tests.support.catalogue import stock_catalogue
from workflows.executions.definitions import save_workflow
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import Execution, Hold, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

REVIEW = "t0.human_review"


@pytest.fixture
def admin(make_user: MakeUser) -> User:
    stock_catalogue()
    return make_user("boss", "admin")


def echo(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": value},
        **more,
    }


def saved(admin: User, *tasks: dict[str, Any], policy: dict[str, Any] | None = None) -> Workflow:
    fields = {
        "name": "flow",
        "title": "Flow",
        "plan": {"tasks": list(tasks)},
        "policy": {"hil": {"enabled": False}} if policy is None else policy,
    }
    return save_workflow(actor=admin, fields=fields)


def opened(user: User, workflow: Workflow) -> Editor:
    return Editor(user, f"?workflow={workflow.pk}").press("select:0")


def review_fields(**fields: Any) -> dict[str, Any]:
    """The fields of the first task's review as the page posts them."""
    posted = {
        "trigger_phase": "BEFORE_EXECUTION",
        "groups": ["reviewer"],
        "quorum": "1",
        "timeout_seconds": "",
        "on_timeout": "reject",
        "on_reject": "abort",
        "max_change_requests": "3",
        "instructions": "",
        "sample": "",
        "skip_when.mode": "",
        "skip_when": "",
        "reminders.own": "",
        "reminders.0.kind": "after_seconds",
        "reminders.0.value": "",
        "escalation.own": "",
        "escalation.0.after": "",
        "escalation.0.groups": "",
        "escalation.0.tell": "",
        **{name.replace("__", "."): value for name, value in fields.items()},
    }
    return {"t0.id": "x", **{f"{REVIEW}.{name}": value for name, value in posted.items()}}


def simulation_of(editor: Editor) -> str:
    """The list of stops, with single spaces."""
    start = editor.html.index('id="editor-simulation"')
    return " ".join(editor.html[start : editor.html.index("</section>", start)].split())


def test_every_field_of_a_review_is_written_as_the_engine_takes_it(admin: User) -> None:
    Group.objects.create(name="finance")
    editor = opened(admin, saved(admin, echo("one", "x")))
    editor.press(
        "show",
        **review_fields(
            trigger_phase="AFTER_EXECUTION",
            groups=["finance", "reviewer"],
            quorum="2",
            timeout_seconds="4 h",
            on_timeout="approve",
            on_reject="skip",
            max_change_requests="0",
            instructions="Look at the sum.",
            sample="12.5",
            skip_when__mode="all",
            **{
                "skip_when.0.field": "output.sum",
                "skip_when.0.operator": "less",
                "skip_when.0.value": "10",
                "reminders.own": "own",
                "reminders.0.kind": "at",
                "reminders.0.value": "50",
                "reminders.1.kind": "before_seconds",
                "reminders.1.value": "30 min",
                "escalation.own": "own",
                "escalation.0.after": "2 h",
                "escalation.0.groups": "finance",
                "escalation.0.tell": "ann, bob",
            },
        ),
    )
    assert editor.tasks[0]["human_review"] == {
        "trigger_phase": "AFTER_EXECUTION",
        "groups": ["finance", "reviewer"],
        "quorum": 2,
        "timeout_seconds": 14_400,
        "on_timeout": "approve",
        "on_reject": "skip",
        "max_change_requests": 0,
        "instructions": "Look at the sum.",
        "sample": 0.125,
        "skip_when": "type(output.sum) == 'number' && output.sum < `10`",
        "reminders": [{"at": 0.5}, {"before_seconds": 1800}],
        "escalation": [{"after_seconds": 7200, "groups": ["finance"], "tell": ["ann", "bob"]}],
    }
    assert 'value="4 h"' in editor.html
    assert "Fix " not in editor.html


def test_default_values_are_left_out_and_a_review_is_switched_off(admin: User) -> None:
    editor = opened(admin, saved(admin, echo("one", "x")))
    editor.press("show", **review_fields(trigger_phase=""))
    assert "human_review" not in editor.tasks[0]
    editor.press("show", **review_fields())
    assert editor.tasks[0]["human_review"] == {"trigger_phase": "BEFORE_EXECUTION"}
    editor.press("show", **review_fields(quorum="2"))
    editor.press("show", **review_fields(quorum="2", trigger_phase=""))
    off = {"trigger_phase": "BEFORE_EXECUTION", "quorum": 2, "enabled": False}
    assert editor.tasks[0]["human_review"] == off
    editor.press("show", **review_fields(quorum="2"))
    on = {"trigger_phase": "BEFORE_EXECUTION", "quorum": 2}
    assert editor.tasks[0]["human_review"] == on


def test_a_form_that_did_not_change_changes_nothing(admin: User) -> None:
    written = {
        "timeout_seconds": 5400.0,
        "quorum": 1,
        "sample": 0.3333,
        "skip_when": "inputs.value=='x'",
        "reminders": [{"after_seconds": 61}],
    }
    editor = opened(admin, saved(admin, echo("one", "x", human_review=written)))
    shown = policy_form.review_context(editor.tasks[0], "t0", {}, (), fields=())
    fields = {field["key"]: field.get("text", "") for field in shown["fields"]}
    assert fields[f"{REVIEW}.timeout_seconds"] == "90 min"
    values = {key.removeprefix(f"{REVIEW}."): text for key, text in fields.items()}
    posted = review_fields(
        timeout_seconds=values["timeout_seconds"],
        sample=values["sample"],
        skip_when__mode="all",
        **{
            "skip_when.0.field": "inputs.value",
            "skip_when.0.operator": "is",
            "skip_when.0.value": "x",
            "reminders.own": "own",
            "reminders.0.value": "61 s",
        },
    )
    editor.press("show", **posted)
    assert editor.tasks[0]["human_review"] == written


@pytest.mark.parametrize(
    ("fields", "key", "message"),
    [
        ({"timeout_seconds": "soon"}, "timeout_seconds", "enter a time such as 30 min"),
        ({"quorum": "many"}, "quorum", "enter a whole number"),
        ({"quorum": "99"}, "quorum", "less than or equal to 20"),
        ({"sample": "200"}, "sample", "enter a number from 0 to 100"),
        ({"groups": ["nobody"]}, "groups", "there is no group 'nobody'"),
        ({"groups": []}, "groups", "name at least one group that decides"),
        ({"skip_when.mode": "text", "skip_when": "inputs.("}, "skip_when", "Parse error"),
        ({"reminders.own": "own", "reminders.0.value": "x"}, "reminders.0", "enter a time such"),
        (
            {"reminders.own": "own", "reminders.0.kind": "at", "reminders.0.value": "50"},
            "reminders.0",
            "needs a deadline, and this hold has none",
        ),
        (
            {"escalation.own": "own", "escalation.0.after": "1 h", "escalation.0.groups": "x"},
            "escalation.0",
            "there is no group 'x'",
        ),
        (
            {
                "skip_when.mode": "any",
                "skip_when.0.field": "inputs.value",
                "skip_when.0.operator": "greater",
                "skip_when.0.value": "much",
            },
            "skip_when",
            "condition 1: enter a number",
        ),
    ],
)
def test_errors_are_shown_at_their_field(
    admin: User, fields: dict[str, Any], key: str, message: str
) -> None:
    editor = opened(admin, saved(admin, echo("one", "x")))
    editor.press("check", **review_fields(**fields))
    slot = policy_form.review_key("t0") + f".{key}"
    start = editor.html.index(f'id="{error_id(slot)}"')
    assert message in editor.html[start : editor.html.index("</p>", start)]


def error_id(key: str) -> str:
    return dom_id(key, "error")


def test_the_policy_of_the_workflow_is_edited_and_undoes_to_what_it_was(admin: User) -> None:
    workflow = saved(admin, echo("one", "x"), policy={})
    editor = Editor(admin, f"?workflow={workflow.pk}")
    shown = {
        "policy.shown": "1",
        "policy.hil.groups": ["reviewer"],
        "policy.replan_review.groups": ["reviewer"],
        "policy.four_eyes": "on",
    }
    editor.press("show", **shown)
    assert json.loads(editor.draft)["policy"] == {}
    editor.press(
        "show",
        **{
            **shown,
            "policy.four_eyes": "",
            "policy.require_rejection_reason": "true",
            "policy.hil.timeout_seconds": "2 d",
            "policy.ail.enabled": "on",
            "policy.secrets": "iban\ncustomer.name",
            "policy.reminders.0.kind": "after_seconds",
            "policy.reminders.0.value": "1 h",
        },
    )
    assert json.loads(editor.draft)["policy"] == {
        "four_eyes": False,
        "require_rejection_reason": True,
        "hil": {"timeout_seconds": 172_800},
        "ail": {"enabled": True},
        "secrets": ["iban", "customer.name"],
        "reminders": [{"after_seconds": 3600}],
    }


def test_settings_of_agents_speculation_and_a_permission_set_are_fields(admin: User) -> None:
    settings = {"rules": [{"if": "failed > `0`", "then": {"action": "abort"}}]}
    policy = {"ail": {"settings": settings}, "speculation": {"confidence": 0.85}}
    workflow = saved(admin, echo("one", "x", permission_set="readonly"), policy=policy)
    editor = opened(admin, workflow)
    assert 'value="85"' in editor.html
    shown = {
        "policy.shown": "1",
        "policy.ail.settings": json.dumps(settings, indent=2),
        "policy.hil.groups": ["reviewer"],
        "policy.replan_review.groups": ["reviewer"],
        "policy.four_eyes": "on",
    }
    editor.press("show", **shown)
    assert json.loads(editor.draft)["policy"] == policy
    changed = {
        "policy.ail.settings": '{"a": 1}',
        "policy.speculation.enabled": "on",
        "policy.speculation.confidence": "learned",
        "policy.speculation.max_tasks": "3",
        "t0.id": "one",
        "t0.permission_set": "network-api",
    }
    editor.press("show", **{**shown, **changed})
    assert json.loads(editor.draft)["policy"] == {
        "ail": {"settings": {"a": 1}},
        "speculation": {"enabled": True, "confidence": "learned", "max_tasks": 3},
    }
    assert editor.tasks[0]["permission_set"] == "network-api"
    editor.press("show", **{**shown, **changed, "t0.permission_set": ""})
    assert "permission_set" not in editor.tasks[0]
    for text in ("[]", "{"):
        editor.press("show", **{**shown, "policy.ail.settings": text})
        assert "Fix " in editor.html


def test_a_looser_policy_than_the_installation_allows_is_shown_as_fixed(
    admin: User, make_user: MakeUser
) -> None:
    fixed = policy_form.loosening_choices({})
    assert ("four_eyes", "false") in fixed
    person = Editor(make_user("rita", "reviewer")).press("add:builtin.echo")
    assert "Fixed: this installation does not allow a looser setting." in person.html
    assert ("require_rejection_reason", "true") not in fixed
    boss = Editor(admin).press("add:builtin.echo")
    assert "Fixed: this installation" not in boss.html


def test_the_simulation_names_people_to_those_who_may_see_them(
    admin: User, make_user: MakeUser
) -> None:
    for name in ("ann", "bob", "cat", "dan", "eva", "fay"):
        make_user(name, "reviewer")
    make_user("aud", "reviewer", "auditor")
    review = {"quorum": 2, "timeout_seconds": 3600}
    workflow = saved(admin, echo("one", "x", human_review=review))
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "Before “one”" in text
    assert "needs 2 of reviewer (6 people can decide: ann, bob, cat, dan, eva, …)" in text
    assert "after 1 h without a decision it is rejected" in text
    reviewer = make_user("guy", "reviewer")
    text = simulation_of(Editor(reviewer, f"?copy={workflow.pk}"))
    # Four eyes: the person who starts the run cannot approve in it.
    assert "needs 2 of reviewer (6 people can decide)" in text


def test_a_review_that_nobody_can_decide_is_warned_about(admin: User, make_user: MakeUser) -> None:
    Group.objects.create(name="empty")
    lonely = make_user("lone", "operator", "finance")
    workflow = saved(admin, echo("one", "x", human_review={"groups": ["empty"]}))
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "Too few people can decide. Add people" in text
    workflow.plan["tasks"][0]["human_review"] = {"groups": ["finance"]}
    workflow.save()
    text = simulation_of(Editor(lonely, f"?copy={workflow.pk}"))
    assert "with four eyes, you cannot approve in a run that you start" in text


def test_the_simulation_uses_the_last_run_that_the_person_sees(
    admin: User, make_user: MakeUser
) -> None:
    review = {"trigger_phase": "AFTER_EXECUTION", "skip_when": "output.kind == 'small'"}
    workflow = saved(admin, echo("one", {"kind": "small"}, human_review=review))
    editor = Editor(admin, f"?workflow={workflow.pk}")
    assert "depends on the output of one" in simulation_of(editor)
    run = start_execution(actor=admin, workflow=workflow)
    assert run_to_rest(run.pk).status == "COMPLETED"
    editor = Editor(admin, f"?workflow={workflow.pk}")
    assert "skipped by the condition of the task" in simulation_of(editor)
    editor.press("check", simulate="inputs")
    assert "depends on the output of one" in simulation_of(editor)
    # A run that the person may not see gives no data.
    other = make_user("rita", "reviewer")
    assert "Run " not in simulation_of(Editor(other, f"?copy={workflow.pk}"))


def test_masked_values_of_a_run_are_unknown(admin: User) -> None:
    review = {"trigger_phase": "AFTER_EXECUTION", "skip_when": "output.password == 'x'"}
    workflow = saved(admin, echo("one", {"password": "x"}, human_review=review))
    run = start_execution(actor=admin, workflow=workflow)
    run_to_rest(run.pk)
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "depends on the output of one" in text
    assert "Masked values count as unknown." in text


def test_a_mask_among_the_default_inputs_is_unknown(admin: User) -> None:
    review = {"trigger_phase": "AFTER_EXECUTION", "skip_when": "output.password == 'x'"}
    task = {**echo("one", {"$from": "inputs"}, human_review=review), "when": "inputs.password"}
    workflow = saved(admin, task)
    Workflow.objects.filter(pk=workflow.pk).update(default_inputs={"password": mark(1)})
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "Masked values count as unknown." in text


def test_a_run_stops_where_the_simulation_says(admin: User, make_user: MakeUser) -> None:
    make_user("ann", "reviewer")
    workflow = saved(
        admin,
        echo("one", 1, human_review={"skip_when": "inputs.value < `5`"}),
        echo("two", {"$from": "one"}, human_review={}, when="one == `2`"),
        echo("three", 7, human_review={"skip_when": "inputs.value < `5`"}, depends_on=["one"]),
    )
    run_to_rest(start_execution(actor=admin, workflow=workflow).pk)
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "Before “one”" in text
    assert "skipped by the condition of the task" in text
    assert "two does not run: its condition is false." in text
    assert "Before “three”" in text
    run = run_to_rest(start_execution(actor=admin, workflow=workflow).pk)
    assert [hold.task_id for hold in Hold.objects.filter(execution=run)] == ["three"]


def test_expressions_cannot_keep_the_page_busy(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews = [echo(f"t{number}", 1, human_review={"skip_when": "`true`"}) for number in range(5)]
    workflow = saved(admin, *reviews)
    monkeypatch.setattr("reviews.authoring.simulation._SECONDS", 0)
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "The simulation took too long; the rest of the run is not shown." in text


def test_only_outputs_that_conditions_read_are_loaded(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = saved(
        admin,
        echo("one", 1),
        echo("two", 2, human_review={"skip_when": "inputs.value == `2`"}),
        echo("three", {"$from": "two"}, human_review={"skip_when": "inputs.value == `2`"}),
    )
    run_to_rest(start_execution(actor=admin, workflow=workflow).pk)
    read: list[Any] = []
    whole = simulation.tasks_of

    def tasks_of(run: Execution, **how: Any) -> Any:
        read.append(sorted(how["names"]))
        return whole(run, **how)

    monkeypatch.setattr(simulation, "tasks_of", tasks_of)
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert read == [["two"]]
    assert text.count("skipped by the condition of the task") == 2


def test_a_start_that_loosens_the_policy_says_so_at_the_field(
    make_user: MakeUser, settings: Any
) -> None:
    stock_catalogue()
    hil = {"enabled": True, "on_timeout": "approve", "timeout_seconds": 3600}
    settings.HOLDPOINT = {**settings.HOLDPOINT, "policy_floor": {"hil": hil}}
    editor = Editor(make_user("rita", "reviewer")).press("add:builtin.echo")
    policy = {
        "hil": "always",
        "policy.shown": "1",
        "policy.hil.groups": ["reviewer"],
        "policy.replan_review.groups": ["reviewer"],
        "policy.four_eyes": "on",
        "policy.hil.on_timeout": "approve",
        "policy.hil.timeout_seconds": "1 min",
    }
    editor.press("start", **editor.task_fields(**{"a0.text": "x"}), **policy)
    assert editor.status == 422
    start = editor.html.index(f'id="{error_id("policy.hil.timeout_seconds")}"')
    message = editor.html[start : editor.html.index("</p>", start)]
    assert "this installation requires 3600.0, and 60.0 is looser" in message


def test_the_admin_leads_to_the_policy(admin: User) -> None:
    admin.is_staff = admin.is_superuser = True
    admin.save()
    workflow = saved(admin, echo("one", "x"))
    answer = signed_in(admin).get(f"/admin/workflows/workflow/{workflow.pk}/change/")
    place = f"/admin/workflows/workflow/editor/?workflow={workflow.pk}#policy"
    assert place in answer.content.decode()


def test_plans_that_are_too_large_or_wrong_are_not_simulated(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = saved(admin, echo("one", "x"), echo("two", "x"))
    editor = opened(admin, workflow).press("show", **review_fields(quorum="99"))
    assert "Fix the errors to see where a run would stop." in simulation_of(editor)
    monkeypatch.setattr("reviews.authoring.simulation.MAX_TASKS", 1)
    text = simulation_of(Editor(admin, f"?workflow={workflow.pk}"))
    assert "A plan with more than 1 tasks is not simulated." in text


def test_the_last_reviews_are_counted_for_a_condition(admin: User, make_user: MakeUser) -> None:
    reviewer = make_user("ann", "reviewer")
    workflow = saved(admin, echo("one", "x", human_review={}))
    for _number in range(2):
        run = run_to_rest(start_execution(actor=admin, workflow=workflow).pk)
        hold = Hold.objects.get(execution=run)
        services.decide(
            services.DecisionRequest(
                hold_id=hold.id,
                user=reviewer,
                decision="APPROVE",
                version=hold.execution.version,
                source="web",
            )
        )
    assert Execution.objects.count() == 2
    editor = opened(admin, workflow)
    editor.press(
        "show", **review_fields(**{"skip_when.mode": "text", "skip_when": "inputs.value == 'x'"})
    )
    assert "On the last 2 reviews it would have skipped 2." in editor.html
    fields = {"skip_when.mode": "text", "skip_when": "inputs.value == 'y'"}
    editor.press("check", **review_fields(**fields))
    assert "On the last 2 reviews it would have skipped 0." in editor.html
