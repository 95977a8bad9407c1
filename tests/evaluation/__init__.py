"""Evaluation of the tool graph on public MCP servers: `make eval`."""
