"""Absences: while a person is away, a delegate gets their notices and decides for them.

Rights are checked in `reviews.decisions.rights`, visibility in `workflows.executions.access`.
"""
