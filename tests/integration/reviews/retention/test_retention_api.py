"""REST API of retention policies and legal holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.http import Http404
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.models import LegalHold, RetentionEntry, RetentionPolicy
from reviews.retention.services import delete_policy, save_policy
from tests.integration.reviews.conftest import MakeUser, Start, echo
from workflows.models import Execution, Gate, Workflow
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db

POLICIES, HOLDS = "/api/v1/retention-policies/", "/api/v1/legal-holds/"
Bearer = Callable[..., APIClient]


@pytest.fixture
def admin(make_user: MakeUser) -> User:
    return make_user("boss", "admin")


@pytest.fixture
def bearer() -> Bearer:
    def client(user: User, *scopes: str, workflows: Sequence[str] | None = None) -> APIClient:
        _, text = create_token(
            user=user, name="t", scopes=scopes or ("read", "admin"), workflows=workflows
        )
        return APIClient(headers={"Authorization": f"Bearer {text}"})

    return client


@pytest.fixture
def workflow() -> Workflow:
    return Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})


def logged() -> list[tuple[str, str]]:
    return list(RetentionEntry.objects.order_by("id").values_list("kind", "actor"))


def test_a_policy_is_previewed_enabled_and_deleted(
    bearer: Bearer, admin: User, start: Start, workflow: Workflow
) -> None:
    client, run = bearer(admin), start(echo("a"))
    Execution.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(days=9))
    made = client.post(POLICIES, {"keep_days": 7}, format="json")
    assert made.status_code == 201, made.content
    assert made.json() == {
        "id": made.json()["id"], "workflow": None, "keep_days": 7, "erase_records": False,
        "enabled": False,
    }  # fmt: skip
    place = made["Location"]
    preview = client.get(f"{place}preview/").json()
    assert (preview["runs"], preview["counted"], preview["rows"]["plan versions"]) == (1, 1, 1)
    changed = client.patch(place, {"enabled": True}, format="json")
    assert changed.json() == {**made.json(), "enabled": True} == client.get(place).json()
    unseen = client.patch(place, {"keep_days": 1}, format="json")
    assert (unseen.status_code, unseen.json()["errors"][0]["path"]) == (422, "enabled")
    assert client.post(POLICIES, {"keep_days": 30}, format="json").status_code == 422
    own = client.post(POLICIES, {"workflow": "w", "keep_days": None}, format="json")
    assert (own.status_code, own.json()["workflow"]) == (201, "w")
    assert client.post(POLICIES, {"workflow": "w"}, format="json").status_code == 422
    assert [each["workflow"] for each in client.get(POLICIES).json()["results"]] == [None, "w"]
    assert client.delete(place).status_code == 204
    assert client.get(place).status_code == 404
    assert logged() == [("policy_set", "boss")] * 3 + [("policy_deleted", "boss")]


def test_a_legal_hold_is_placed_and_lifted(
    bearer: Bearer, admin: User, start: Start, workflow: Workflow
) -> None:
    client, run = bearer(admin), start(echo("a"))
    body = {"execution_id": str(run.pk), "reason": "Case 7"}
    made = client.post(HOLDS, body, format="json")
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["execution_id"], shown["workflow"], shown["gate"]) == (str(run.pk), None, None)
    assert (shown["placed_by"], shown["lifted_by"], shown["lifted_at"]) == ("boss", None, None)
    place = made["Location"]
    assert client.get(place).json() == shown
    of_all = client.post(HOLDS, {"workflow": "w", "reason": "Case 8"}, format="json")
    assert (of_all.status_code, of_all.json()["workflow"]) == (201, "w")
    Gate.objects.create(name="files")
    of_gate = client.post(HOLDS, {"gate": "files", "reason": "Case 9"}, format="json")
    assert (of_gate.status_code, of_gate.json()["gate"]) == (201, "files")
    for other in ({"workflow": "w"}, {"gate": "files"}):
        assert client.post(HOLDS, {**body, **other}, format="json").status_code == 422
    assert client.post(f"{place}lift/", {}, format="json").status_code == 422
    for _ in range(2):
        lifted = client.post(f"{place}lift/", {"reason": "Closed"}, format="json")
        assert (lifted.status_code, lifted.json()["lifted_by"]) == (200, "boss")
    newest = RetentionEntry.objects.latest("id")
    assert newest.detail["lift_reason"] == "Closed"
    assert logged() == [("hold_placed", "boss")] * 3 + [("hold_lifted", "boss")]
    assert len(client.get(HOLDS).json()["results"]) == 3


def test_only_admins_with_the_scope(
    bearer: Bearer, make_user: MakeUser, admin: User, start: Start, workflow: Workflow
) -> None:
    run = start(echo("a"))
    limited = bearer(admin, workflows=[workflow.name])
    policy = RetentionPolicy.objects.create(keep_days=7)
    hold = LegalHold.objects.create(execution=run, reason="x", placed_by=admin)
    one = f"{POLICIES}{policy.pk}/"
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", POLICIES, {}), ("POST", POLICIES, {"keep_days": 7}), ("GET", one, {}),
        ("PATCH", one, {"keep_days": 1}), ("DELETE", one, {}), ("GET", f"{one}preview/", {}),
        ("GET", HOLDS, {}), ("POST", HOLDS, {"execution_id": run.pk, "reason": "x"}),
        ("GET", f"{HOLDS}{hold.pk}/", {}), ("POST", f"{HOLDS}{hold.pk}/lift/", {"reason": "x"}),
    ]  # fmt: skip
    others = []
    for role in ("reviewer", "operator", "auditor", "integrator"):
        others.append(APIClient())
        others[-1].force_login(make_user(f"a-{role}", role))
    for method, path, body in requests:
        assert APIClient().generic(method, path).status_code == 401
        scopes = ("run", "decide", "admin") if method == "GET" else ("read", "run", "decide")
        for client in (*others, limited, bearer(admin, *scopes)):
            response = getattr(client, method.lower())(path, body, format="json")
            assert response.status_code == 403, (method, path)
    assert (RetentionPolicy.objects.count(), LegalHold.objects.get().lifted_at) == (1, None)


def test_a_policy_that_was_deleted_meanwhile_does_not_come_back(admin: User) -> None:
    policy = RetentionPolicy.objects.create(keep_days=7)
    read = RetentionPolicy.objects.get()
    delete_policy(actor=admin, policy=policy)
    read.enabled = True
    with pytest.raises(Http404):
        save_policy(actor=admin, policy=read)
    assert not RetentionPolicy.objects.exists()


@pytest.mark.parametrize("number", ["0", "x", "99999999999999999999"])
def test_an_unknown_id_is_404(bearer: Bearer, admin: User, number: str) -> None:
    client = bearer(admin)
    for path in (
        f"{POLICIES}{number}/", f"{POLICIES}{number}/preview/", f"{HOLDS}{number}/",
    ):  # fmt: skip
        assert client.get(path).status_code == 404
    lift = client.post(f"{HOLDS}{number}/lift/", {"reason": "x"}, format="json")
    assert lift.status_code == 404
