"""A stdio server whose tool answers with a line that is not JSON-RPC, once `calls` have begun.

It also logs to its standard output: when it starts, after the answer to `list`, and in calls.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

TOOL = {"name": "add", "inputSchema": {"type": "object"}}


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(id_: object, **body: Any) -> None:
    """Answer a request."""
    say(json.dumps({"jsonrpc": "2.0", "id": id_} | body))


def main() -> None:
    """Answer requests until the end of the input."""
    with Path(os.environ["JOURNAL"]).open("a") as journal:
        journal.write(f"pid {os.getpid()}\n")
    waiting = 0
    say("The server has started")
    for request in map(json.loads, sys.stdin):
        if request["method"] == "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "garbled", "version": "1"}
            answer(
                request["id"],
                result={
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                },
            )
        elif request["method"] == "tools/list":
            answer(request["id"], result={"tools": [TOOL]})
            say("The list was read")
        elif request["method"] == "tools/call":
            waiting += 1
            say("")
            say('{"event": "A call has begun"}')
            if waiting == request["params"]["arguments"]["calls"]:
                say(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"content": [')
        elif "id" in request:
            answer(request["id"], error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
