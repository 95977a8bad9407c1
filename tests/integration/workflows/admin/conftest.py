"""Staff of several kinds, logged in to the admin."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.integration.workflows.api.conftest import reviewed_plan
from tests.support.catalogue import stock_catalogue
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Workflow
from workflows.permissions.roles import ensure_roles

Login = Callable[[str], Client]


@pytest.fixture
def staff(db: None) -> Login:
    """`staff("auditor")`: a client of a new staff user in that group; "root" is a superuser."""
    ensure_roles()

    def make(role: str) -> Client:
        user = User.objects.create_user(role, is_staff=True, is_superuser=role == "root")
        if role != "root":
            user.groups.add(Group.objects.get(name=role))
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def paused(db: None) -> Execution:
    """An execution that waits for a reviewer."""
    stock_catalogue()
    starter = User.objects.create_user("starter")
    execution = services.start_execution(
        actor=starter, plan=reviewed_plan(), inputs={"note": "<script>alert(1)</script>"}
    )
    return run_to_rest(execution.pk)


@pytest.fixture
def workflow(db: None) -> Workflow:
    stock_catalogue()
    return Workflow.objects.create(name="echo", title="Echo", plan=reviewed_plan())
