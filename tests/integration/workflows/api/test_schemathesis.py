"""Every operation of the served OpenAPI document, tried with generated requests.

Each case goes to the whole application in this process, as one of five callers: nothing may end in
a 5xx, and every answer has to be one that the document describes.  `HOLDPOINT_CASES` says how
many cases each operation gets; 50, or 1,000 in `make test-long`.  `-s` shows the answers.
"""

import os
from collections import Counter
from itertools import count
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from reviews.backtests import services as backtests_services
from reviews.decisions.services import DecisionRequest, decide
from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from tests.integration.workflows.api.test_access import delivered, granted
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.repetitions import often
from workflows.executions import definitions, services
from workflows.executions.jobs import run_to_rest
from workflows.models import Capability, Workflow
from workflows.permissions.tokens import create_token

CASES = int(os.environ.get("HOLDPOINT_CASES", often(50, 1000)))
CALLERS = ("anonymous", "reviewer", "auditor", "integrator", "hostile")
CHECKS = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
HOSTILE = ["", "Bearer", "Bearer hp_aaaaaaaa_" + "a" * 43, "Bearer \x7f", "Bearer " + "x" * 5000]


def document() -> Any:
    return SchemaGenerator().get_schema(public=True)


def labels() -> list[str]:
    """`GET /api/v1/executions/` and so on, as the URLconf has them."""
    paths = document()["paths"].items()
    methods = ("get", "post", "put", "patch", "delete")
    return [
        f"{method.upper()} {path}" for path, item in paths for method in methods if method in item
    ]


@pytest.fixture(scope="module")
def application() -> Any:
    """The whole application; a request keeps the test's connection, as with Django's client."""
    made = get_wsgi_application()
    signals.request_started.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_old_connections)
    yield made
    signals.request_started.connect(close_old_connections)
    signals.request_finished.connect(close_old_connections)


@pytest.fixture(scope="module")
def operations(application: Any) -> dict[str, Any]:
    schema = schemathesis.openapi.from_dict(document())
    schema.app = application
    found = [result.ok() for result in schema.get_all_operations()]
    return {operation.label: operation for operation in found}


@pytest.fixture
def credentials(db: None) -> dict[str, list[dict[str, str]]]:
    """Headers of each caller, to be taken in turn."""
    made = {"anonymous": [{}], "hostile": [{"Authorization": text} for text in HOSTILE]}
    for role in ("reviewer", "auditor", "integrator"):
        user = User.objects.create_user(role)
        user.groups.add(group_of(role))
        _, text = create_token(user=user, name="t", scopes=["read", "run", "decide"])
        made[role] = [{"Authorization": f"Bearer {text}"}]
    return made


@pytest.fixture
def known(credentials: Any) -> dict[str, str]:
    """Path arguments that lead somewhere."""
    stock_catalogue()
    workflow = Workflow.objects.create(name="echo", title="Echo", plan=reviewed_plan())
    definitions.record_version(workflow, author=None)
    Capability.objects.create(name="echo", language="python", code="1")
    people = {name: User.objects.get(username=name) for name in ("integrator", "reviewer")}
    done, execution, plain = (
        run_to_rest(services.start_execution(actor=people["integrator"], **what).pk)
        for what in ({"workflow": workflow}, {"workflow": workflow}, {"plan": plain_plan()})
    )
    record = decide(
        DecisionRequest(
            hold_id=done.holds.get().id,
            user=people["reviewer"],
            decision="APPROVE",
            version=done.version,
            source="rest",
        )
    ).record
    token, _ = create_token(user=people["integrator"], name="other", scopes=["read"])
    rule = {"name": "half", "sample": 0.5}
    auditor = User.objects.get(username="auditor")
    backtest = backtests_services.start(user=auditor, workflow=workflow, rules=[rule])
    return {
        "execution_id": str(execution.pk),
        "hold_id": execution.holds.get().id,
        "name": "echo",
        "workflow_name": "echo",
        "number": 1,
        "token_id": str(token.pk),
        "grant_id": str(granted(plain).pk),
        "backtest_id": str(backtest.pk),
        "id": record.pk,
        **delivered(people["integrator"], execution),
    }


@pytest.mark.parametrize("label", labels())
def test_generated_requests_never_break_the_contract(
    label, operations, credentials, known, settings_unlimited
) -> None:
    operation = operations[label]
    tool = "/tools/" in label
    turns = count()
    answers: Counter[tuple[str, int]] = Counter()

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), lost=st.integers(0, 3))
    def each(case: Any, lost: int) -> None:
        turn = next(turns)
        caller = CALLERS[turn % len(CALLERS)]
        headers = credentials[caller][turn // len(CALLERS) % len(credentials[caller])]
        if lost:  # of four cases three are about something that is there
            found = {**known, "name": "builtin.echo"} if tool else known
            case.path_parameters.update(
                {name: found[name] for name in case.path_parameters if name in found}
            )
        with transaction.atomic():
            # The library reads bodies as they are sent.
            response = case.call(headers={**headers, "Accept-Encoding": "identity"})
            transaction.set_rollback(True)
        answers[caller, response.status_code] += 1
        case.validate_response(response, checks=CHECKS)
        if caller in ("anonymous", "hostile"):
            assert response.status_code in (400, 401, 404, 406, 411, 413), response.status_code

    each()
    print(f"\n{label}: {answers.total()} cases; {in_words(answers)}")  # noqa: T201


def in_words(answers: Counter[tuple[str, int]]) -> str:
    """`anonymous 10x401; reviewer 7x200 3x404` and so on."""
    each = {
        caller: " ".join(
            f"{n}x{status}" for (who, status), n in sorted(answers.items()) if who == caller
        )
        for caller in CALLERS
    }
    return "; ".join(f"{caller} {found}" for caller, found in each.items())


@pytest.fixture
def settings_unlimited(settings: Any) -> None:
    names = ("requests_per_minute", "starts_per_minute", "decisions_per_minute")
    settings.HOLDPOINT = {**settings.HOLDPOINT, **dict.fromkeys(names, 0)}
