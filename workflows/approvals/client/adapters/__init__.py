"""Codecs between the approval requests of agent frameworks and the approvals API.

`to_approvals` makes bodies of POST /api/v1/approvals/ by call id, which `Client.decide` takes;
`to_answer` makes the answer that the framework expects from the decisions by call id.
"""
