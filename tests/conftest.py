"""Real servers for the tests: PostgreSQL 18 with pgvector and Redis, in a folder of this run.

They start when a test first needs a database (or asks for `servers`) and end with the run. xdist
workers share them; each worker has its own database and its own Redis database number.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support import emptying, sessions
from tests.support import servers as test_servers
from tests.support.repetitions import LONG

pytest_plugins = ["tests.support.together"]

# How long an example takes says more about the machine than about the product.  The same examples
# every time, so that `make test` gives every checkout the same answer; `make test-long` explores.
hypothesis_settings.register_profile(
    "calm",
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("calm")


@pytest.fixture(scope="session")
def servers() -> None:
    """PostgreSQL and Redis are up. Database tests get this by themselves."""
    if os.environ["HOLDPOINT_TEST_HOME"] in settings.REDIS_URL + str(settings.DATABASES):
        test_servers.start()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, servers: None
) -> None:
    """pytest-django's hook before it makes the test database."""


@pytest.fixture(scope="session", autouse=True)
def _quick_database() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        emptying.install(patch)
        sessions.install(patch)
        # Otherwise how many queries a list takes would depend on the time.
        patch.setattr("reviews.queue.selectors.RECOUNT_SECONDS", 1e-9)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    sessions.close_unless_asked_for(item)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The process that started the run ends the servers, after all xdist workers are done."""
    if not hasattr(config, "workerinput"):
        test_servers.stop(Path(os.environ["HOLDPOINT_TEST_HOME"]))
