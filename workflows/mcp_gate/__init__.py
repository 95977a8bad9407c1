"""The MCP gate: agents call the tools of registered MCP servers, and people decide some calls.

`asgi.http_app` is mounted at `/mcp/gate/<name>/`.  A call takes five steps:

1. `callers.py` checks token, scope and gate; `tools.py` finds the server, the tool and its policy.
2. `allow` sends the call to the server at once; `deny` refuses it; `hold` asks for an approval
   (`workflows.approvals`), once for the same call of the same token (`calls.py`).
3. The client gets a task (SEP-2663), a URL to open, or progress while it waits (`server.py`); when
   its time ends it gets an error that says to ask again with the call's id.
4. After the approval one process claims the call, stores that it is sent, and sends the decided
   arguments (`sending.py`).  No call is sent twice: an unknown outcome stays unknown.
   If the server asks for input meanwhile, people answer it (`elicitation.py`).
5. The server's answer goes back unchanged and is reported to the approval.
"""
