"""Hook of a coding agent that asks people in Holdpoint; standard library only, Python 3.10+.

    python3 hook.py claude-code --timeout 3500 || exit 2     PreToolUse of Claude Code
    python3 hook.py codex --timeout 3500 || exit 2           PermissionRequest of Codex

Reads the event from standard input and prints the answer. It reads the address of the server and a
token with the scope `ask` from ~/.holdpoint/<agent>.json, {"url": "https://…", "token": "hp_…"},
which only its owner may read, or from HOLDPOINT_URL and HOLDPOINT_TOKEN. A token in the command of
the hook would be in the list of processes, which every user of the machine can read.

It fails closed: without a decision it exits with 2 and a reason on standard error, which denies the
call in both agents. That covers an unreachable server, a wrong answer, a signal and the end of
`--timeout`. It then tells the server that nobody waits any more, which cancels the approval. The
timeout has to be shorter than the timeout of the hook in the agent's settings: an agent
goes on without the hook when the hook takes longer. `|| exit 2` covers a missing Python.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import stat
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any, NoReturn

EVENTS = {"claude-code": "PreToolUse", "codex": "PermissionRequest"}
_RETRY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 50
#: An agent that has sent a signal does not wait long for the end.
_STOP_SECONDS = 5
_MAX_BYTES = 4 * 2**20
_SIGNALS = [
    number for name in ("SIGTERM", "SIGINT", "SIGHUP") if (number := getattr(signal, name, 0))
]


class Denied(Exception):
    """No decision; the text says why."""


class TimedOut(Denied):
    """Nobody decided before the end of `--timeout`."""


class Terminated(BaseException):
    """A signal."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask for approval in Holdpoint.")
    parser.add_argument("agent", choices=EVENTS)
    parser.add_argument("--timeout", type=float, default=540.0, help="seconds")
    options = parser.parse_args()
    for number in _SIGNALS:
        signal.signal(number, terminate)
    try:
        try:
            answer = decided(options.agent, sys.stdin.buffer.read(), options.timeout)
            print(json.dumps(answer), flush=True)  # noqa: T201 - the answer to the agent
        except Denied as denied:
            deny(str(denied))
    except Terminated:
        deny("the hook was terminated")
    except BaseException as error:  # no error must let the call through
        deny(f"{type(error).__name__}: {error}")


def terminate(*_: object) -> NoReturn:
    """Handle the first signal; the ones after it would disturb the end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise Terminated


def deny(reason: str) -> NoReturn:
    """End with the exit status that denies the call."""
    os.write(2, f"Holdpoint: the call is not approved: {reason}\n".encode("utf-8", "replace"))
    os._exit(2)


def decided(agent: str, event: bytes, timeout: float) -> dict[str, Any]:
    """Return the answer of the server, once people have decided; raise Denied otherwise."""
    base, token = credentials(agent)
    call = Call(base, token, agent, event)
    try:
        return checked(agent, call.wait(timeout))
    except BaseException as error:
        last = call.stop()
        if isinstance(error, TimedOut) and last.get("status") == "approved":
            return checked(agent, last)
        raise


class Call:
    """The call of a tool that needs an approval; its id continues the same approval."""

    def __init__(self, base: str, token: str, agent: str, event: bytes) -> None:
        self._address = f"{base}/api/v1/hooks/{agent}/"
        self._token = token
        self._event = event
        self._id = uuid.uuid4().hex

    def wait(self, timeout: float) -> dict[str, Any]:
        """Return the decision; raise TimedOut without one."""
        end = time.monotonic() + timeout
        pause, last = 0.5, "nobody decided in time"
        while (left := end - time.monotonic()) > 0:
            wait = int(max(1, min(_LONGEST_WAIT, left)))
            query = f"?wait={wait}&envelope=true&call={self._id}"
            try:
                body = post(
                    f"{self._address}{query}", self._token, self._event, min(wait + 10, left + 1)
                )
            except (OSError, http.client.HTTPException, ValueError) as error:
                last = f"{type(error).__name__}: {error}"
                time.sleep(max(0.0, min(pause * random.uniform(0.5, 1), end - time.monotonic())))  # noqa: S311
                pause = min(pause * 2, 15)
                continue
            if body.get("status") != "pending":
                return body
            pause, last = 0.5, "nobody decided in time"
        raise TimedOut(last)

    def stop(self) -> dict[str, Any]:
        """Tell the server that nobody waits any more; return its answer, or {} without one."""
        try:
            return post(
                f"{self._address}stop/?call={self._id}", self._token, self._event, _STOP_SECONDS
            )
        except (Denied, OSError, http.client.HTTPException, ValueError):
            return {}  # the server notices that nobody waits, and the approval has a deadline


def credentials(agent: str) -> tuple[str, str]:
    """Return the address of the server and the token; raise Denied without them."""
    base: object
    token: object
    if "HOLDPOINT_URL" in os.environ or "HOLDPOINT_TOKEN" in os.environ:
        base, token = os.environ.get("HOLDPOINT_URL"), os.environ.get("HOLDPOINT_TOKEN")
        source = "HOLDPOINT_URL and HOLDPOINT_TOKEN"
    else:
        path = Path.home() / ".holdpoint" / f"{agent}.json"
        base, token = stored(path)
        source = str(path)
    if not isinstance(base, str) or not base.startswith(("https://", "http://")):
        raise Denied(f"{source} name no server, such as https://holdpoint.example.com")
    if not isinstance(token, str) or not token:
        raise Denied(f"{source} have no token")
    return base.rstrip("/"), token


def stored(path: Path) -> tuple[object, object]:
    """Return the address and the token of a file that only its owner may read."""
    try:
        mode = path.stat().st_mode
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Denied(f"{path} cannot be read: {error}") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Denied(f"other users may read {path}: run chmod 600 {path}")
    if not isinstance(values, dict):
        raise Denied(f"{path} is not a JSON object")
    return values.get("url"), values.get("token")


def post(url: str, token: str, event: bytes, seconds: float) -> dict[str, Any]:
    """Send the event and return the server's answer."""
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked
        url,
        data=event,
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
        },
    )
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=seconds) as response:
            data = response.read(_MAX_BYTES)
            if len(data) < int(response.headers.get("Content-Length") or 0):
                raise ConnectionError("the connection was cut within the answer")
            body = json.loads(data)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(2000).decode("utf-8", "replace")
        if error.code in _RETRY_STATUSES:
            raise ConnectionError(f"HTTP {error.code}") from None
        raise Denied(f"HTTP {error.code}: {text}") from None
    if not isinstance(body, dict):
        raise Denied("the server's answer is not a JSON object")
    return body


def checked(agent: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer if it is one for the agent, and allows only what is approved."""
    output = body.get("output")
    specific = output.get("hookSpecificOutput") if isinstance(output, dict) else None
    if not isinstance(specific, dict) or specific.get("hookEventName") != EVENTS[agent]:
        raise Denied("the server's answer is not one for this agent")
    decision = specific.get("decision")
    behavior = specific.get("permissionDecision")
    if agent == "codex":
        behavior = decision.get("behavior") if isinstance(decision, dict) else None
    if behavior not in ("allow", "deny") or (behavior == "allow") != (
        body.get("status") == "approved"
    ):
        raise Denied("the server's answer contradicts itself")
    return {"hookSpecificOutput": specific}


if __name__ == "__main__":
    main()
