"""A browser, and the product it talks to."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.browser import ADVICE, find, in_ci
from tests.e2e.product import Product, running_product

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder drives real processes."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window. Missing: a failure in CI, a loud skip elsewhere."""
    expect.set_options(timeout=15_000)  # ms; as long as a click waits
    path = find()
    if path is None:
        if in_ci():
            pytest.fail(ADVICE)
        pytest.skip(ADVICE)
    arguments = ["--disable-dev-shm-usage"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's own sandbox refuses to run as root
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile: no cookies of another test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    context.set_default_timeout(15_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture(scope="session")
def instance() -> Iterator[Product]:
    """One instance for all tests of this process, with its demo users and workflows."""
    with running_product() as instance:
        yield instance


#: The queue shows the oldest reviews first and 50 on a page, so what other files left open would
#: push the reviews of later tests onto its second page.
NEWEST = """
from workflows.models import Execution
print(Execution.objects.order_by("-pk").values_list("pk", flat=True).first() or 0)
"""
ABORT = """
from contextlib import suppress
from workflows.engine.protocol.actors import SYSTEM
from workflows.engine.protocol.commands import Abort
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.services import submit_command
from workflows.models import Execution
paused = Execution.objects.filter(status=ExecutionStatus.PAUSED_FOR_REVIEW, pk__gt={newest})
for pk in paused.values_list("pk", flat=True):
    with suppress(Refused):
        submit_command(
            execution_id=pk,
            command=Abort(reason="its tests ended"),
            actor=SYSTEM,
            source="cli",
        )
"""


@pytest.fixture(scope="module")
def product(instance: Product) -> Iterator[Product]:
    """The shared instance. The runs that a file leaves paused are aborted at its end."""
    newest = instance.command("shell", "-v", "0", "-c", NEWEST)
    yield instance
    instance.command("shell", "-v", "0", "-c", ABORT.format(newest=int(newest)))
