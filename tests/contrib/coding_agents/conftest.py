"""Agents that ask and people who decide, as in the tests of approvals."""

from tests.integration.workflows.approvals.conftest import agent, people, reviewer  # noqa: F401
