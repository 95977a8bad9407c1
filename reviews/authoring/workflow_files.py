"""Workflows as JSON and YAML files, without loss in both directions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

from django.utils.text import slugify
from django.utils.translation import gettext as _

from workflows.common import yaml_documents
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.dag import MAX_TASKS
from workflows.engine.values.bounded_json import DEFAULT, WITH_PLAN, BoundedJSONError, parse
from workflows.models import Workflow

from . import plan_edits

OBJECTS: Final = ("plan", "policy", "inputs_schema", "default_inputs")
#: The texts of a workflow and their maximum lengths.
TEXTS: Final = {"name": 100, "title": 200, "description": DEFAULT.string_length}
#: Characters that a number at the end of a text may need.
_NUMBER_LENGTH: Final = 10
#: The fields of a file, in their order.
FIELDS: Final = (*TEXTS, *OBJECTS)
_NAME: Final = re.compile(r"[-a-zA-Z0-9_]+")
#: A document has all objects of a workflow, each of which may be as large as one value.
LIMITS: Final = replace(DEFAULT, depth=DEFAULT.depth + 1, nodes=WITH_PLAN.nodes + 3 * DEFAULT.nodes)


class NoWorkflow(ValueError):
    """A file that holds no workflow; the message says where and why."""


def exported(workflow: Workflow) -> dict[str, Any]:
    """Return the definition of a workflow as files hold it."""
    return {name: getattr(workflow, name) for name in FIELDS}


def written(definition: dict[str, Any], kind: str) -> str:
    """Return a definition as the text of a file of the kind json or yaml."""
    if kind == "yaml":
        return yaml_documents.dump(definition)
    return json.dumps(definition, indent=2, ensure_ascii=False)


def read(text: str) -> dict[str, Any]:
    """Return the fields that a JSON or YAML file has; raises NoWorkflow."""
    text = text.removeprefix("\ufeff")
    if len(text) > LIMITS.max_bytes:
        message = _("is larger than %(n)s KiB; use the REST API for larger workflows")
        raise NoWorkflow(message % {"n": LIMITS.max_bytes // 1024})
    try:
        is_json = text.lstrip().startswith("{")
        value = parse(text, limits=LIMITS) if is_json else yaml_documents.load(text, limits=LIMITS)
    except BoundedJSONError as error:
        raise NoWorkflow(str(error)) from error
    if wrong := _wrong_field(value):
        raise NoWorkflow(wrong)
    fields: dict[str, Any] = value
    return fields


def _wrong_field(value: Any) -> str:
    """Return why a document is no workflow; "" if it is one."""
    if not isinstance(value, dict) or "plan" not in value:
        return _("must be an object with a plan, as an export has it")
    for name, found in value.items():
        if wrong := _wrong_value(name, found):
            return wrong
    if not has_tasks(value["plan"]):
        return _("has a plan without a list of tasks")
    return plan_edits.too_many_tasks() if len(value["plan"]["tasks"]) > MAX_TASKS else ""


def _wrong_value(name: str, value: Any) -> str:
    if name not in FIELDS:
        return _("has an unknown field %(name)s") % {"name": name[:100]}
    if isinstance(value, str) and name in TEXTS:
        return _wrong_text(name, value)
    if not isinstance(value, dict) or name not in OBJECTS:
        return _("has a wrong value for %(name)s") % {"name": name}
    return ""


def _wrong_text(name: str, value: str) -> str:
    if len(value) > TEXTS[name]:
        message = _("%(name)s is longer than %(n)s characters")
        return message % {"name": name, "n": TEXTS[name]}
    if name == "title" and re.search(r"[\r\n]", value):
        return _("title has a line break")
    if name == "name" and value and not _NAME.fullmatch(value):
        return _("name has other characters than letters, digits, dashes and underscores")
    return ""


def has_tasks(plan: Any) -> bool:
    tasks = plan.get("tasks") if isinstance(plan, dict) else None
    return isinstance(tasks, list) and all(isinstance(task, dict) for task in tasks)


def new_name(name: str, title: str) -> str:
    """Return the name of a new workflow, by its title without a valid name; "" if neither is one.

    A name that another workflow has gets a number.
    """
    wanted = name if _NAME.fullmatch(name) else slugify(mask_secrets(title))[:100]
    return free_name(wanted) if wanted else ""


def free_name(wanted: str) -> str:
    """Return `wanted`, with a number if a workflow has that name already."""
    return _free("name", wanted, "{}-{}")


def free_title(wanted: str) -> str:
    """Return `wanted`, with a number if a workflow has that title already."""
    return _free("title", wanted, "{} ({})")


def _free(column: str, wanted: str, numbered: str) -> str:
    start = wanted[: TEXTS[column] - _NUMBER_LENGTH]
    rows = Workflow.objects.filter(**{f"{column}__startswith": start})
    taken = set(rows.values_list(column, flat=True))
    if wanted not in taken:
        return wanted
    texts = (numbered.format(start, number) for number in range(2, len(taken) + 3))
    return next(text for text in texts if text not in taken)
