"""A gate from the admin's form to an agent's call that a reviewer edits and approves."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool
from playwright.sync_api import Browser, Page, expect

from tests.e2e.personas import ADMIN, Job
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

#: The demo's git server writes to no repository, so the gate has one of its own.
SERVER = """
import sys
from workflows.demo.repository import SAFE_CONFIGURATION, git_environment
from workflows.models import McpServer
folder = {folder!r}
McpServer.objects.create(
    name="repository",
    transport="stdio",
    command=sys.executable,
    args=["-m", "mcp_server_git", "--repository", folder],
    env=git_environment({{**SAFE_CONFIGURATION, "safe.directory": folder}}),
    write_paths=[folder],
)
"""


class Agent:
    """An MCP client at the gate."""

    def __init__(self, product: Product) -> None:
        line = ("create_token", "operator", "--scopes", "gate", "--gates", "repo", "--name", "bot")
        self._headers = {"Authorization": f"Bearer {product.manage(*line).split()[-1]}"}
        self._url = f"{product.address}/mcp/gate/repo/"

    async def _with(
        self, tool: str, arguments: dict[str, str]
    ) -> tuple[list[Tool], CallToolResult]:
        async with (
            httpx2.AsyncClient(headers=self._headers, timeout=120) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            tools = (await client.list_tools()).tools
            return tools, await client.call_tool(tool, arguments)

    def call(self, tool: str, **arguments: str) -> tuple[list[Tool], CallToolResult]:
        return asyncio.run(self._with(tool, arguments))


def _review_of(api: Api, page: Page) -> str:
    """The path of the review that the agent's call opened."""
    for _ in range(600):
        _, listed = api("reviews/pending/")
        for hold in listed["results"]:
            if "git_create_branch" in json.dumps(hold):
                return f"/review/{hold['execution_id']}/{hold['hold_id']}/"
        page.wait_for_timeout(100)
    raise AssertionError("no review of the call opened")


def test_a_call_is_held_edited_approved_and_answered(
    page: Page, product: Product, browser: Browser, tmp_path: Path
) -> None:
    for command in (["init", "-q"], ["-c", "user.name=Ada", "-c", "user.email=a@example.com",
                    "commit", "-q", "--allow-empty", "-m", "start"]):  # fmt: skip
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    product.command("shell", "-v", "0", "-c", SERVER.format(folder=str(tmp_path)))
    product.command("sync_tools")

    job = Job(page, product, "admin", ADMIN)
    page.goto(f"{product.address}/admin/workflows/gate/add/")
    page.get_by_label("Name:", exact=True).fill("repo")
    page.get_by_role("checkbox", name="repository", exact=True).check()
    page.get_by_role("button", name="Save and continue editing").click()
    section = page.get_by_role("region", name="Tools")
    expect(section).to_contain_text(f"{product.address}/mcp/gate/repo/")
    row = section.get_by_role("row", name=re.compile("repository.git_create_branch"))
    expect(row).to_contain_text("hold for a person (default)")
    page.locator("select[name='tools-0-tool']").select_option("repository.git_commit")
    page.locator("select[name='tools-0-policy']").select_option("deny")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(section.get_by_role("row", name=re.compile("repository.git_commit"))).to_contain_text(
        "deny"
    )
    job.done_in_the_admin()

    agent = Agent(product)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(
            agent.call, "repository__git_create_branch", repo_path=str(tmp_path), branch_name="wip"
        )
        reviewer = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        sign_in(reviewer, product, "reviewer")
        path = _review_of(Api(product, "reviewer", "read"), reviewer)
        reviewer.goto(f"{product.address}{path}")
        branch = reviewer.get_by_role("textbox", name=re.compile("Branch name", re.IGNORECASE))
        branch.fill("reviewed")
        reviewer.get_by_role("button", name="Approve with 1 change").click()
        tools, result = asked.result(timeout=120)
    assert not result.is_error, result.content
    names = {tool.name for tool in tools}
    assert "repository__git_create_branch" in names
    assert "repository__git_commit" not in names
    branches = subprocess.run(
        ["git", "branch", "--format=%(refname:short)"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "reviewed" in branches.stdout.split()
    assert "wip" not in branches.stdout.split()

    page.goto(f"{product.address}/admin/workflows/gatecall/")
    expect(
        page.get_by_role("row", name=re.compile("repository.git_create_branch"))
    ).to_contain_text("answered")
    reviewer.context.close()
