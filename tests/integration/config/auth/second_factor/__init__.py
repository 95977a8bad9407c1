"""A real web process in which approvals of high risk need a code."""
