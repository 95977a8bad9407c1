"""Sends requests by operation name and records requests and responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from tests.integration.workflows.api.normalization import steady_all
from workflows.api.examples import RECORDED

JSON = "application/json"


class Recorder:
    """`tell` sends one request; `operations` is the document's: method, path and description."""

    def __init__(self) -> None:
        self.document = SchemaGenerator().get_schema(public=True)
        self.operations = {
            operation["operationId"]: (method, path, operation)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
        }
        self.taken: dict[str, dict[str, Any]] = {}

    def tell(
        self, client: APIClient, name: str, body: Any = None, /, *, query: str = "", **path: Any
    ) -> Any:
        """The answer's body; the first one of each success status is recorded."""
        method, template, operation = self.operations[name]
        url = template.format(**path) + (f"?{query}" if query else "")
        answer = getattr(client, method)(url, *([] if body is None else [body]))
        status = str(answer.status_code)
        assert status in operation["responses"], (name, answer.content)
        assert status.startswith("2"), (name, answer.content)
        taken = self.taken.setdefault(name, {})
        if body is not None and not _is_written(operation):
            taken.setdefault("request", body)
        if JSON in operation["responses"][status].get("content", {}):
            taken.setdefault("responses", {}).setdefault(status, answer.json())
        return answer.json() if answer.content else None

    def wanted(self) -> dict[str, set[str]]:
        """Operation → the statuses of success it answers with a body."""
        found = {
            name: {
                status
                for status, answer in operation["responses"].items()
                if status.startswith("2") and JSON in answer.get("content", {})
            }
            for name, (_, _, operation) in self.operations.items()
        }
        return {name: statuses for name, statuses in found.items() if statuses}

    def examples(self) -> dict[str, Any]:
        """What is written down, by operation."""
        return steady_all(
            {name: self.taken[name] for name in sorted(self.taken) if self.taken[name]}
        )


def _is_written(operation: dict[str, Any]) -> bool:
    """Whether its request has examples written by hand, which stay."""
    examples = operation["requestBody"]["content"][JSON].get("examples", {})
    return bool(examples.keys() - {RECORDED})


def write(examples: dict[str, Any], path: Path) -> None:
    """One line for each request and each answer, so that a change shows as what it is."""
    parts = []
    for name, example in examples.items():
        answers = [_line(k, v, "   ") for k, v in example.get("responses", {}).items()]
        lines = [_line("request", example["request"], "  ")] if "request" in example else []
        lines += ['  "responses": {\n' + ",\n".join(answers) + "\n  }"] if answers else []
        parts.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _line(key: str, value: Any, indent: str) -> str:
    return f"{indent}{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
