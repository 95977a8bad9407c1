"""Coding agents whose hooks ask for the approval of tool calls: Claude Code and Codex."""
