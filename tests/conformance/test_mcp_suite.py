"""The public conformance suite of MCP against the gateway (`make test-conformance`).

The suite is downloaded from the npm registry, so neither `make test` nor CI runs it.
`expected_failures.yml` names the scenarios that fail, and why; an unexpected failure and an
unexpected success both fail this test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.token_proxy import token_proxy
from tests.integration.config.auth.site import running_site

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("HOLDPOINT_TEST_CONFORMANCE"), reason="run by make test-conformance"
    ),
    pytest.mark.django_db(transaction=True),
]
SUITE = "npm:@modelcontextprotocol/conformance@0.1.16"
EXPECTED = Path(__file__).with_name("expected_failures.yml")
PERSON = """
from django.contrib.auth.models import Group, User
ann = User.objects.create_user("ann", password="a long pass phrase")
ann.groups.add(Group.objects.get_or_create(name="operator")[0])
"""


def test_the_server_scenarios(tmp_path: Path) -> None:
    deno = Path(sys.executable).with_name("deno")
    with running_site(tmp_path) as site:
        site.manage("shell", "-c", PERSON)
        made = site.manage("create_token", "ann", "--scopes", "read,run,ask", "--name", "t")
        assert made.returncode == 0, made.stderr
        with token_proxy(site.url, made.stdout.split()[-1]) as url:
            command = [str(deno), "run", "--allow-all", "--no-prompt", SUITE, "server"]
            arguments = ["--url", f"{url}/mcp", "--expected-failures", str(EXPECTED)]
            done = subprocess.run(
                [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
            )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
