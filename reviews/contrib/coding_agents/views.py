"""Page that connects a coding agent: a file with a token that can only ask, and the settings.

The token is in no command: the list of processes shows commands to every user of the machine.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from reviews.components import labels as components_labels
from reviews.components.views import current_user, page
from workflows import conf as workflow_conf
from workflows.executions.validation import InvalidRequest
from workflows.permissions.tokens import create_token

from .hook_formats import AGENTS, Agent

if TYPE_CHECKING:
    from django.contrib.auth.models import User

TEMPLATE, SECTION = "coding_agents/connect.html", "tokens"
_TOKEN_DAYS: Final = 90
#: How long a call waits for people.  The hook answers before the agent gives up on it.
_WAIT_SECONDS: Final = 3600
_ANSWER_SECONDS: Final = _WAIT_SECONDS - 60
_FILES: Final = {"claude-code": "~/.claude/settings.json", "codex": "~/.codex/hooks.json"}
_SCRIPT: Final = "~/.holdpoint/hook.py"
#: Tools that change something; reading tools are not worth a review.
_MATCHERS: Final = {
    "claude-code": "Bash|Edit|Write|NotebookEdit|WebFetch|mcp__.*",
    "codex": ".*",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a person copies to connect an agent; it holds the token and is shown only once."""

    title: str
    download: str
    token_file: str
    token: str
    file: str
    settings: str


def setup(agent: Agent, site: str, token: str) -> Setup:
    """Return the commands, the file of the token and the settings of an agent."""
    script_url = shlex.quote(f"{site}/client/hook.py")
    token_file = f"~/.holdpoint/{agent.name}.json"
    commands = (
        "mkdir -p ~/.holdpoint",
        f"curl -fo {_SCRIPT} {script_url}",
        f"install -m 600 /dev/null {token_file}",
    )
    return Setup(
        title=agent.title,
        download="\n".join(commands),
        token_file=token_file,
        token=json.dumps({"url": site, "token": token}, indent=2),
        file=_FILES[agent.name],
        settings=json.dumps(_settings(agent), indent=2),
    )


def _settings(agent: Agent) -> dict[str, Any]:
    script = f"python3 {_SCRIPT} {agent.name} --timeout {_ANSWER_SECONDS}"
    hook = {
        "type": "command",
        # Exit status 2 denies the call, also when Python or the script is missing.
        "command": f"{script} || exit 2",
        "timeout": _WAIT_SECONDS,
        "onFailure": "block",
    }
    if agent.name == "codex":
        del hook["onFailure"]  # an option of Claude Code
    entry = {"matcher": _MATCHERS[agent.name], "hooks": [hook]}
    return {"hooks": {agent.event: [entry]}}


def _context(
    *, chosen: str = "", made: Setup | None = None, errors: Iterable[Any] = ()
) -> dict[str, Any]:
    return {
        "agents": tuple(
            {"value": each.name, "title": each.title, "selected": each.name == chosen}
            for each in AGENTS.values()
        ),
        "days": _TOKEN_DAYS,
        "minutes": _ANSWER_SECONDS // 60,
        "made": made,
        "errors": components_labels.faults(errors),
    }


def _connect(user: User, agent: Agent) -> Setup:
    """Create the token; raises InvalidRequest."""
    _token, text = create_token(
        user=user,
        name=agent.title,
        scopes=["ask"],
        expires_at=timezone.now() + timedelta(days=_TOKEN_DAYS),
    )
    return setup(agent, workflow_conf.site_url().rstrip("/"), text)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("made")
def connect(request: HttpRequest) -> HttpResponse:
    """Choose an agent; a POST creates its token, and only its response shows the settings."""
    if request.method != "POST":
        return page(request, TEMPLATE, _context(), section=SECTION)
    chosen = request.POST.get("agent", "")
    agent = AGENTS.get(chosen)
    if agent is None:
        errors = [{"path": _("Agent"), "message": _("Select one of the list.")}]
        context = {**_context(), "errors": errors}
        return page(request, TEMPLATE, context, section=SECTION, status=422)
    try:
        made = _connect(current_user(request), agent)
    except InvalidRequest as invalid:
        context = _context(chosen=chosen, errors=invalid.problems)
        return page(request, TEMPLATE, context, section=SECTION, status=422)
    return page(request, TEMPLATE, _context(chosen=chosen, made=made), section=SECTION)
