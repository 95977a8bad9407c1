"""Start PostgreSQL 18 with pgvector and Redis for a test run, in a directory of the run.

The servers start when a test first needs a database (or requests `servers`) and stop with the run.
xdist workers share them; each worker has its own database and its own Redis database number.
"""

import os
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support import servers as test_servers
from tests.support.repetitions import LONG

# The duration of an example depends on the machine more than on the product. `make test` runs the
# same examples on every checkout; `make test-long` explores new ones.
hypothesis_settings.register_profile(
    "calm",
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("calm")


@pytest.fixture(scope="session")
def servers() -> None:
    """Start PostgreSQL and Redis. Database tests get this fixture automatically."""
    if os.environ["HOLDPOINT_TEST_HOME"] in settings.REDIS_URL + str(settings.DATABASES):
        test_servers.start()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, servers: None
) -> None:
    """Start the servers before pytest-django creates the test database."""


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers in the process that started the run, after all xdist workers."""
    if not hasattr(config, "workerinput"):
        test_servers.stop(Path(os.environ["HOLDPOINT_TEST_HOME"]))
