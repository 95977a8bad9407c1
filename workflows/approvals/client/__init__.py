"""Clients of the approvals API, served as files; no file of them imports the product."""
