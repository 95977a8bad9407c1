"""A stdio server whose tool runs Python code: it does what a hostile server could do.

It needs only the standard library, so that any account can run it. Variables stay between calls.
"""

import contextlib
import io
import json
import sys

TOOL = {"name": "run", "inputSchema": {"type": "object"}}
NAMES: dict[str, object] = {}


def result_of(code: str) -> str:
    """Run the code and return what it printed, or the name of its exception."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(code, NAMES)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return output.getvalue().strip()


def main() -> None:
    """Answer requests until the end of the input."""
    for request in map(json.loads, sys.stdin):
        if "id" not in request:
            continue
        answer: dict[str, object] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "initialize":
            answer["result"] = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "obedient", "version": "1"},
            }
        elif request["method"] == "tools/list":
            answer["result"] = {"tools": [TOOL]}
        elif request["method"] == "tools/call":
            text = result_of(request["params"]["arguments"]["code"])
            answer["result"] = {"content": [{"type": "text", "text": text}]}
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
