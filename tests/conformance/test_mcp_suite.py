"""The public conformance suite of MCP against gateway and OAuth server (`make test-conformance`).

The suite is downloaded from the npm registry, so neither `make test` nor CI runs it.
`expected_failures.yml` names the scenarios that fail, and why; an unexpected failure and an
unexpected success both fail this test.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.conformance.token_proxy import token_proxy
from tests.integration.config.auth.oauth.test_mcp_client import PERSON, Person
from tests.integration.config.auth.site import Site, running_site
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("HOLDPOINT_TEST_CONFORMANCE"), reason="run by make test-conformance"
    ),
    pytest.mark.django_db(transaction=True),
]
SUITE = "npm:@modelcontextprotocol/conformance@0.1.16"
EXPECTED = Path(__file__).with_name("expected_failures.yml")
#: The first releases with scenarios for authorization servers.
AUTHORIZATION = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12"
DENO = Path(sys.executable).with_name("deno")


def test_the_server_scenarios(tmp_path: Path) -> None:
    with running_site(tmp_path) as site:
        site.manage("shell", "-c", PERSON)
        made = site.manage("create_token", "ann", "--scopes", "read,run,ask", "--name", "t")
        assert made.returncode == 0, made.stderr
        with token_proxy(site.url, made.stdout.split()[-1]) as url:
            command = [str(DENO), "run", "--allow-all", "--no-prompt", SUITE, "server"]
            arguments = ["--url", f"{url}/mcp", "--expected-failures", str(EXPECTED)]
            done = subprocess.run(
                [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
            )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"


def test_the_authorization_scenarios(tmp_path: Path) -> None:
    with running_site(tmp_path) as site:
        site.manage("shell", "-c", PERSON)
        port = free_port()
        callback = f"http://127.0.0.1:{port}/callback"
        client = {"redirect_uris": [callback], "token_endpoint_auth_method": "none"}
        registered = httpx2.post(f"{site.url}/oauth/register/", json=client).json()
        command = [str(DENO), "run", "--allow-all", "--no-prompt", AUTHORIZATION, "authorization"]
        arguments = ["--url", site.url, "--client-id", registered["client_id"]]
        arguments += ["--port", str(port), "--resource", f"{site.url}/mcp"]
        with subprocess.Popen(
            [*command, *arguments],
            cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as suite:  # fmt: skip
            assert suite.stdout is not None
            printed = ""
            for line in suite.stdout:
                printed += line
                if line.startswith(f"{site.url}/oauth/authorize/"):
                    asyncio.run(consent(site, line.strip()))
    assert suite.returncode == 0, printed
    for scenario in ("authorization-server-metadata-endpoint", "authorization-code-grant"):
        assert re.search(rf"✓ {scenario}: [1-9]\d* passed, 0 failed", printed), printed


async def consent(site: Site, address: str) -> None:
    """Open the address that the suite prints, sign in, consent, and go back to the suite."""
    async with httpx2.AsyncClient(base_url=site.url, follow_redirects=True) as browser:
        person = Person(browser)
        await person.consent(address)
        await browser.get(person.callback)
