"""The roles, in the order of the access tables."""

ROLES = ("reviewer", "auditor", "operator", "integrator", "admin")
