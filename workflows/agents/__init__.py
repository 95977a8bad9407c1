"""Agents that decide between layers."""

from .registry import DecisionAgent, RegisteredAgents, agent_names, register

__all__ = ["DecisionAgent", "RegisteredAgents", "agent_names", "register"]
