"""Executions, holds and commands in the admin: everything to be seen, nothing to be changed."""

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from tests.support.actors import actor_named
from workflows.engine.protocol.commands import load_command
from workflows.executions import services
from workflows.models import CommandLog, Execution, Hold

pytestmark = pytest.mark.django_db
READ_ONLY = ("execution", "hold", "commandlog")


def listing(model: str) -> str:
    return reverse(f"admin:workflows_{model}_changelist")


def page(model: str, pk: object) -> str:
    return reverse(f"admin:workflows_{model}_change", args=[pk])


@pytest.fixture
def commanded(paused: Execution) -> CommandLog:
    command = load_command({"kind": "update_state", "updates": {"a": 1}})
    services.submit_command(
        execution_id=paused.pk, command=command, actor=actor_named("root"), source="rest"
    )
    return CommandLog.objects.get()


def test_an_execution_shows_its_whole_timeline(staff, paused, commanded) -> None:
    response = staff("root").get(page("execution", paused.pk))
    assert response.status_code == 200
    text = response.content.decode()
    hold = paused.holds.get()
    for expected in (
        "PAUSED_FOR_REVIEW", "builtin.echo", hold.id, "waits for a person", "run started",
        "update the context", "starter", "Activity", "Checkpoints", "Audit records",
    ):  # fmt: skip
        assert expected.lower() in text.lower(), expected
    assert reverse("reviews:run", args=[paused.pk]) in text


def test_lists_show_labels_instead_of_stored_codes(staff, paused, commanded) -> None:
    client = staff("root")
    changelist = listing("commandlog")
    shown = [
        client.get(url).content.decode() for url in (changelist, page("commandlog", commanded.pk))
    ]
    for text in shown:
        assert "update the context" in text
        assert "REST" in text
        assert "update_state<" not in text
    # The choices of the filter; two kinds of decisions are one choice.
    assert shown[0].count(">decision<") == 1
    for query, count in (
        ("kind__exact=update_state", 1),
        ("kind__exact=approval_response", 0),
        ("source__exact=rest&outcome__exact=applied", 1),
        ("source__exact=web", 0),
    ):
        rows = client.get(f"{changelist}?{query}").context["cl"].queryset
        assert rows.count() == count, query


def test_hostile_text_is_escaped(staff, paused) -> None:
    text = staff("root").get(page("execution", paused.pk)).content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_lists_open_and_filter(staff, paused, commanded) -> None:
    client = staff("root")
    for model, query in (
        ("execution", "status__exact=PAUSED_FOR_REVIEW&q=ad-hoc"),
        ("hold", "state=all&q=draft"),
        ("commandlog", "outcome__exact=applied&q=root"),
    ):
        text = client.get(f"{listing(model)}?{query}").content.decode()
        assert "1 " in text
        assert client.get(listing(model)).status_code == 200


@pytest.mark.parametrize("model", READ_ONLY)
def test_nothing_is_added_changed_or_deleted(staff, paused, commanded, model) -> None:
    client = staff("root")
    pk = {"execution": paused.pk, "hold": paused.holds.get().pk, "commandlog": commanded.pk}[model]
    assert client.get(reverse(f"admin:workflows_{model}_add")).status_code == 403
    assert client.post(reverse(f"admin:workflows_{model}_delete", args=[pk])).status_code == 403
    # A run takes commands and a review takes decisions; these fields are neither.
    answer = client.post(page(model, pk), {"title": "x", "status": "COMPLETED"})
    assert answer.status_code == {"execution": 303, "hold": 422, "commandlog": 403}[model]
    shown = client.get(page(model, pk))
    assert shown.status_code == 200
    assert b'name="_save"' not in shown.content
    before = Execution.objects.get(pk=paused.pk)
    client.post(listing(model), {"action": "delete_selected", "_selected_action": [pk]})
    assert Execution.objects.get(pk=paused.pk).version == before.version
    assert Hold.objects.count() == 1
    assert CommandLog.objects.count() == 1


@pytest.mark.parametrize("model", ["execution", "commandlog"])
def test_there_are_no_bulk_actions(rf, staff, model) -> None:
    staff("root")
    request = rf.get("/")
    from django.contrib.auth.models import User

    request.user = User.objects.get()
    (found,) = [
        admin
        for row, admin in site._registry.items()
        if row._meta.label_lower == f"workflows.{model}"
    ]
    assert found.get_actions(request) == {}


@pytest.mark.parametrize(
    ("role", "status"), [("auditor", 200), ("operator", 200), ("integrator", 403)]
)
def test_roles_that_see_every_run_may_read(staff, paused, role, status) -> None:
    client = staff(role)
    assert client.get(page("execution", paused.pk)).status_code == status
    assert client.get(listing("hold")).status_code == status


def test_staff_see_only_visible_runs(staff, paused) -> None:
    """The right to view the page does not widen what is visible."""
    client = staff("integrator")
    user = User.objects.get(username="integrator")
    user.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    assert b"list-empty" in client.get(listing("execution")).content
    gone = client.get(page("execution", paused.pk))
    assert gone.status_code == 302
    assert b"list-empty" in client.get(listing("hold")).content


@pytest.mark.parametrize("pk", ["99999999999999999999", "x", "0"])
def test_an_unknown_execution_redirects(staff, pk) -> None:
    response = staff("root").get(page("execution", pk))
    assert response.status_code == 302
