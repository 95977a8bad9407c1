"""An MCP server of protocol 2025-06-18 that sends a request for input during a call."""

import json
import sys
from typing import Any

TOOL = {"name": "deploy", "inputSchema": {"type": "object"}}
SCHEMA = {
    "type": "object",
    "properties": {"branch": {"type": "string"}},
    "required": ["branch"],
}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }
        send(id=number, result=result)
    elif method == "tools/list":
        send(id=number, result={"tools": [TOOL]})
    elif method == "tools/call":
        params = {"message": "Which branch?", "requestedSchema": SCHEMA}
        send(id=f"question {number}", method="elicitation/create", params=params)
    elif method is None:
        call = int(number.removeprefix("question "))
        text = json.dumps(message.get("result") or message["error"]["message"])
        send(id=call, result={"content": [{"type": "text", "text": text}]})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "Method not found"})
