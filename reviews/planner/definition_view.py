"""The definition of a workflow with its secrets masked, for people who may not change it.

Configured in settings (`HOLDPOINT["definition_view"]`), because the API and the admin of workflows
are in an app below this one.
"""

from __future__ import annotations

from typing import Any

from reviews.decisions.masking import Rules, masked
from workflows.engine.dag import is_reference
from workflows.models import Workflow


def shown_definition(workflow: Workflow) -> dict[str, Any]:
    """Return `plan` and `default_inputs` with masks; references to other values stay readable."""
    rules = definition_rules(workflow)
    plan = masked(workflow.plan, Rules(paths=rules.paths)).value
    inputs = masked(workflow.default_inputs, rules).value
    return {"plan": _with_references(plan, workflow.plan), "default_inputs": inputs}


def definition_rules(workflow: Workflow) -> Rules:
    """Return the rules for secrets among the inputs: the policy's paths and the schema."""
    listed = workflow.policy.get("secrets") if isinstance(workflow.policy, dict) else None
    paths = tuple(listed) if isinstance(listed, list) else ()
    return Rules(workflow.inputs_schema, paths)


def _with_references(shown: Any, value: Any) -> Any:
    """Return `shown` with each reference of `value`: it names a value, and is no secret itself."""
    if is_reference(value) and value.keys() <= {"$from", "select"}:
        return masked(value).value
    if isinstance(value, dict) and isinstance(shown, dict):
        # By position, because a key that looks secret has a mask too.
        pairs = zip(shown.items(), value.values(), strict=False)
        return {key: _with_references(part, true) for (key, part), true in pairs}
    if isinstance(value, list) and isinstance(shown, list):
        return [_with_references(part, true) for part, true in zip(shown, value, strict=False)]
    return shown
