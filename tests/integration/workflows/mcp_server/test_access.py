"""Results by role and tool, for own and other users' runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group

from reviews.models import HumanReviewRecord
from tests.integration.workflows.api.roles import ROLES
from tests.integration.workflows.mcp_server.conftest import (
    VALIDATED,
    Call,
    at_rest,
    chain,
    reviewed,
)
from tests.integration.workflows.mcp_server.web import refused
from workflows.executions import services
from workflows.mcp_server.tools import TOOLS
from workflows.models import Execution, Hold, Workflow
from workflows.permissions.tokens import SCOPES

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

#: Answers for reviewer, auditor, operator, integrator, admin.  `others` is a run that somebody else
#: started; for `approval_response` it waits for a reviewer, for every other tool for an agent.
TABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "execute": {"any": ("ok", "forbidden", "ok", "ok", "ok")},
    "continue": {
        "others": ("not_found", "forbidden", "ok", "not_found", "ok"),
        "own": ("ok", "forbidden", "ok", "ok", "ok"),
    },
    "abort": {
        "others": ("not_found", "forbidden", "ok", "not_found", "ok"),
        "own": ("ok", "forbidden", "ok", "ok", "ok"),
    },
    "replan": {
        "others": ("not_found", "forbidden", "not_done", "not_found", "not_done"),
        "own": ("not_done", "forbidden", "not_done", "not_done", "not_done"),
    },
    "approval_response": {
        "others": ("ok", "forbidden", "forbidden", "not_found", "forbidden"),
        "own": ("forbidden",) * 5,
    },
    "get_execution": {"others": ("not_found", "ok", "ok", "not_found", "ok"), "own": ("ok",) * 5},
    "list_pending": {
        "others": ("not_found", "ok", "ok", "not_found", "ok"),
        "own": ("ok",) * 5,
    },
    "request_approval": {"any": ("ok", "forbidden", "ok", "ok", "ok")},
    "search_tools": {"any": ("ok",) * 5},
    "predict_next": {"any": ("ok",) * 5},
    "similar_decisions": {"any": ("ok",) * 5},
}
SCOPE = {
    "get_execution": "read",
    "list_pending": "read",
    "request_approval": "ask",
    "similar_decisions": "read",
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "execute": {"plan": chain("a"), "config": {"wait_seconds": 0}},
    "replan": {"new_requirement": "fold the laundry of the neighbour"},
    "approval_response": {"approved": True},
    "request_approval": {
        "action": {"name": "payments.transfer"},
        "idempotency_key": "k",
        "wait_seconds": 0,
    },
    "search_tools": {"query": "x"},
    "predict_next": {"done": ["builtin.echo"]},
    "similar_decisions": {"tool": "builtin.echo"},
}


def test_every_tool_has_a_row() -> None:
    assert set(TOOLS) == set(TABLE)


def arguments(tool: str, owner: User) -> dict[str, Any]:
    """What the tool takes, about a run of `owner` that waits; see TABLE."""
    given = dict(ARGUMENTS.get(tool, {}))
    if "any" not in TABLE[tool]:
        decides = tool == "approval_response"
        plan, policy = (reviewed(), {}) if decides else (chain("a", "b"), VALIDATED)
        execution = services.start_execution(actor=owner, plan=plan, policy=policy)
        given["workflow_id"] = str(at_rest(execution).pk)
    if tool in ("continue", "abort", "approval_response"):
        given["wait_seconds"] = 0
    return given


def outcome(result: Any) -> str:
    return str(refused(result)["code"]) if result.is_error else "ok"


@pytest.mark.parametrize("tool", TABLE)
def test_each_role_gets_its_status(call: Call, people: dict[str, User], tool: str) -> None:
    for whose, expected in TABLE[tool].items():
        found = []
        for role in ROLES:
            owner = people["nobody"] if whose == "others" else people[role]
            scopes = tuple(scope for scope in SCOPES if scope not in ("admin", "loosen"))
            found.append(outcome(call(role, tool, scopes=scopes, **arguments(tool, owner))))
        assert tuple(found) == expected, whose


@pytest.mark.parametrize("whose", ["others", "own"])
@pytest.mark.parametrize("role", ROLES)
def test_only_an_accepted_answer_makes_a_decision(
    call: Call, people: dict[str, User], role: str, whose: str
) -> None:
    """What the table says is what happened: one record and a closed hold, or nothing at all."""
    owner = people["nobody"] if whose == "others" else people[role]
    given = arguments("approval_response", owner)
    hold = Hold.objects.get(execution=given["workflow_id"])
    found = outcome(call(role, "approval_response", scopes=("read", "run", "decide"), **given))
    assert found == TABLE["approval_response"][whose][ROLES.index(role)]
    records = HumanReviewRecord.objects.filter(hold=hold).values_list("actor", "decision")
    hold.refresh_from_db()
    if found == "ok":
        assert (hold.status, list(records)) == ("APPROVED", [(role, "APPROVE")])
        assert at_rest(hold.execution).status == "COMPLETED"
    else:
        assert (hold.status, list(records)) == ("OPEN", [])


@pytest.mark.parametrize("tool", TABLE)
def test_the_error_names_the_missing_scope(call: Call, people: dict[str, User], tool: str) -> None:
    given = arguments(tool, people["admin"])
    needed = SCOPE.get(tool, "run")
    if tool in ("search_tools", "predict_next", "approval_response"):
        needed = "read"
    told = refused(call("admin", tool, scopes=("admin",), **given))
    assert told["code"] == "forbidden"
    assert told["text"] == f"This token does not have the scope '{needed}'."
    assert outcome(call("admin", tool, scopes=(needed,), **given)) != "forbidden"


@pytest.mark.parametrize("tool", TABLE)
def test_an_account_without_a_role_is_refused(
    call: Call, people: dict[str, User], tool: str
) -> None:
    told = refused(call("nobody", tool, **arguments(tool, people["nobody"])))
    assert (told["code"], "no role" in told["text"]) == ("forbidden", True)


def test_invisible_and_unknown_runs_give_the_same_error(
    call: Call, people: dict[str, User]
) -> None:
    execution = services.start_execution(actor=people["operator"], plan=chain("a"))
    hidden = refused(call("integrator", "get_execution", workflow_id=str(execution.pk)))
    missing = refused(call("integrator", "get_execution", workflow_id="987654321"))
    assert hidden == missing


def test_lists_hold_only_visible_rows(call: Call, people: dict[str, User]) -> None:
    for role in ("operator", "integrator"):
        for plan in (chain("a", "b"), reviewed()):
            execution = services.start_execution(actor=people[role], plan=plan, policy=VALIDATED)
            at_rest(execution)

    def seen(role: str, **more: Any) -> list[str]:
        answer = call(role, "list_pending", **more).structured_content
        return [each["decider"] for each in answer["pending"]]

    assert seen("operator") == ["agent", "human"] * 2
    assert seen("integrator") == ["agent", "human"]
    assert seen("reviewer") == ["human", "human"]
    assert seen("operator", decider="human") == ["human", "human"]


def test_pages_of_pending_reviews_follow_each_other(call: Call, people: dict[str, User]) -> None:
    held = []
    for _ in range(3):
        execution = services.start_execution(actor=people["operator"], plan=reviewed())
        at_rest(execution)
        held.append(execution.holds.get().id)
    found: list[str] = []
    cursor = ""
    for _ in range(3):
        page = call("operator", "list_pending", limit=1, cursor=cursor).structured_content
        found += [each["hold_id"] for each in page["pending"]]
        cursor = page["next"]
    assert cursor is None
    assert found == held


@pytest.mark.parametrize(
    "config", [{"policy": {"four_eyes": False}}, {"per_layer_validation": False}]
)
def test_an_agent_loosens_nothing(
    call: Call, people: dict[str, User], config: dict[str, Any]
) -> None:
    policy = {"four_eyes": True, "per_layer_validation": True}
    Workflow.objects.create(name="w", title="W", plan=chain("a", "b"), policy=policy)
    arguments = {"workflow": "w", "config": {**config, "wait_seconds": 0}}
    path = "policy.four_eyes" if "policy" in config else "policy.per_layer_validation"
    for role, scopes in (("integrator", ()), ("operator", ("read", "run", "decide"))):
        told = refused(call(role, "execute", scopes=scopes, **arguments))
        assert [(each["path"], each["code"]) for each in told["errors"]] == [
            (path, "policy_loosened")
        ]
    assert not Execution.objects.exists()
    started = call("operator", "execute", scopes=("read", "run", "loosen"), **arguments)
    execution = Execution.objects.get(pk=started.structured_content["workflow_id"])
    (override,) = execution.policy_overrides
    assert (override["field"], override["by"]) == (path.removeprefix("policy."), "operator")


def test_groups_without_a_decider_are_refused_or_named(call: Call, people: dict[str, User]) -> None:
    Group.objects.get_or_create(name="legal")
    wrong = (("typo", "groups[0]", "unknown_group"), ("auditor", "groups", "no_deciding_group"))
    for name, where, code in wrong:
        plan = reviewed(groups=[name])
        told = refused(call("operator", "execute", plan=plan, config={"wait_seconds": 0}))
        path = f"plan.tasks[0].human_review.{where}"
        assert [(each["path"], each["code"]) for each in told["errors"]] == [(path, code)]
    plan = reviewed(groups=["legal", "reviewer"])
    arguments = {"plan": plan, "config": {"wait_seconds": 0}, "idempotency_key": "k"}
    for _ in range(2):
        content = call("operator", "execute", **arguments).structured_content
        assert content["warnings"] == ["The group 'legal' has no active member who may decide."]
    looked = call("operator", "get_execution", workflow_id=content["workflow_id"])
    assert looked.structured_content["warnings"] == []
