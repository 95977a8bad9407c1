"""The definition of a workflow with its secrets masked, for people who may not change it.

Configured in settings (`HOLDPOINT["definition_view"]`), because the API and the admin of workflows
are in an app below this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reviews.decisions.masking import Masked, Rules, masked
from workflows.engine.plans.dag import is_reference
from workflows.models import Workflow


def shown_definition(workflow: Workflow) -> dict[str, Any]:
    """Return `plan` and `default_inputs` with masks; references to other values stay readable."""
    rules = definition_rules(workflow)
    plan = masked(workflow.plan, Rules(None, rules.paths)).value
    inputs = masked(workflow.default_inputs, rules).value
    return {"plan": _with_references(plan, workflow.plan), "default_inputs": inputs}


def shown_fields(
    definition: Mapping[str, Any], paths: tuple[str, ...], after: Masked | None = None
) -> tuple[dict[str, Any], Masked]:
    """Return all fields of a definition with masks, and the view that continues their numbers.

    The default inputs are also masked by the schema of the inputs, the other fields by `paths`.
    """
    inputs = masked(
        definition.get("default_inputs"), Rules(definition.get("inputs_schema"), paths), after=after
    )
    others = {name: value for name, value in definition.items() if name != "default_inputs"}
    view = masked(others, Rules(None, paths), after=inputs)
    shown: Any = view.value
    return {**shown, "default_inputs": inputs.value}, view


def definition_rules(workflow: Workflow) -> Rules:
    """Return the rules for secrets among the inputs: the policy's paths and the schema."""
    return Rules(workflow.inputs_schema, listed_secrets({"policy": workflow.policy}))


def listed_secrets(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths that the policy of a definition lists as secrets."""
    policy = definition.get("policy")
    listed = policy.get("secrets") if isinstance(policy, dict) else None
    return (
        tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()
    )


def _with_references(shown: Any, value: Any) -> Any:
    """Return `shown` with each reference of `value`: it names a value, and is no secret itself."""
    if is_reference(value) and value.keys() <= {"$from", "select"}:
        return masked(value, Rules(None, ())).value
    if isinstance(value, dict) and isinstance(shown, dict):
        # By position, because a key that looks secret has a mask too.
        pairs = zip(shown.items(), value.values(), strict=False)
        return {key: _with_references(part, true) for (key, part), true in pairs}
    if isinstance(value, list) and isinstance(shown, list):
        return [_with_references(part, true) for part, true in zip(shown, value, strict=False)]
    return shown
