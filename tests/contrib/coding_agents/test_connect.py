"""The page that connects a coding agent: a token that can only ask, in settings that deny."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from reviews.contrib.coding_agents.hook_formats import AGENTS
from tests.support.groups import group_of
from workflows.models import ApiToken

pytestmark = pytest.mark.django_db
URL = reverse("coding_agents:connect")


@pytest.fixture
def browser() -> Client:
    user = User.objects.create_user("dev")
    user.groups.add(group_of("integrator"))
    client = Client()
    client.force_login(user)
    return client


def field(response: Any, name: str) -> str:
    """The text of a field to copy."""
    found = re.search(rf'id="{name}".*?>(.*?)</textarea>', response.content.decode(), re.DOTALL)
    assert found
    return unescape(found[1])


@pytest.mark.parametrize("agent", AGENTS.values(), ids=lambda agent: agent.name)
def test_the_settings_have_a_token_that_can_only_ask(browser: Client, agent: Any) -> None:
    assert "made-settings" not in browser.get(URL).content.decode()
    response = browser.post(URL, {"agent": agent.name})
    assert response.status_code == 200
    (entry,) = json.loads(field(response, "made-settings"))["hooks"][agent.event]
    (hook,) = entry["hooks"]
    token = ApiToken.objects.get()
    assert (token.name, token.scopes) == (agent.title, ["ask"])
    assert token.expires_at is not None
    assert token.prefix not in hook["command"]  # commands are in the list of processes
    assert json.loads(field(response, "made-token"))["token"].startswith(f"{token.prefix}_")
    timeout = re.search(r"--timeout (\d+)", hook["command"])
    assert timeout
    assert int(timeout[1]) < hook["timeout"]
    commands = field(response, "made-download")
    assert "/client/hook.py" in commands
    assert commands.endswith(f"install -m 600 /dev/null ~/.holdpoint/{agent.name}.json")
    assert token.prefix + "_" not in browser.get(URL).content.decode()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_command_denies_while_its_script_is_missing(
    browser: Client, tmp_path: Path, agent: str
) -> None:
    settings = json.loads(field(browser.post(URL, {"agent": agent}), "made-settings"))
    ((entry,),) = settings["hooks"].values()
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = entry["hooks"][0]["command"]
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, input=b"{}")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr


def test_an_unknown_agent_gets_no_token(browser: Client) -> None:
    response = browser.post(URL, {"agent": "other"})
    assert response.status_code == 422
    assert "Select one of the list." in response.content.decode()
    assert not ApiToken.objects.exists()


def test_the_page_needs_a_login() -> None:
    response = Client().get(URL)
    assert response.status_code == 302
    assert response["Location"].startswith("/login/")
