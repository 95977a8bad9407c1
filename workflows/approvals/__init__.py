"""Approvals of actions that agents outside of this product ask for."""
