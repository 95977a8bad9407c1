"""Ids have one type: text in every answer; a request may write them as text or as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from reviews.models import HumanReviewRecord
from workflows.api.examples import RECORDED_IN

NAMES_ID = re.compile(r"(?:.*_)?id|withdraws|parent")
#: Ids of something that is not a row of ours.
OTHER = {"request_id"}


def typed(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and schema of every property that names an id."""
    if isinstance(node, dict):
        properties = node.get("properties")
        for name, schema in properties.items() if isinstance(properties, dict) else ():
            if NAMES_ID.fullmatch(name) and name not in OTHER:
                yield f"{path}.{name}", schema
        for name, each in node.items():
            yield from typed(each, f"{path}.{name}")
    elif isinstance(node, list):
        for each in node:
            yield from typed(each, path)


def valued(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of every key of an answer that names an id."""
    if isinstance(node, dict):
        for name, value in node.items():
            if NAMES_ID.fullmatch(name) and not isinstance(value, (dict, list)):
                yield f"{path}.{name}", value
            yield from valued(value, f"{path}.{name}")
    elif isinstance(node, list):
        for each in node:
            yield from valued(each, path)


def document() -> Any:
    return SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]


def test_every_id_of_an_answer_is_text_in_the_document() -> None:
    schemas = document()["components"]["schemas"]
    answers = {name: each for name, each in schemas.items() if not name.endswith("Request")}
    found = list(typed(answers))
    assert len(found) > 40
    assert [
        path for path, schema in found if schema.get("type") not in ("string", ["string", "null"])
    ] == []


def test_every_id_of_a_path_is_text_in_the_document() -> None:
    named = [
        (path, each)
        for path, item in document()["paths"].items()
        for operation in item.values()
        for each in operation.get("parameters", ())
        if each["in"] == "path"
    ]
    assert [path for path, each in named if each["schema"]["type"] != "string"] == []


def test_every_id_of_a_recorded_answer_is_text() -> None:
    """The examples are what the API answered; see `make examples`."""
    recorded = json.loads(Path(RECORDED_IN).read_text())
    found = list(valued(recorded))
    assert len(found) > 100
    assert [(path, each) for path, each in found if not isinstance(each, str | None)] == []


@pytest.mark.django_db
@pytest.mark.parametrize("written", [int, str])
def test_a_request_may_write_an_id_either_way(bearer: Any, start: Any, written: type) -> None:
    execution = start("operator")
    client = bearer("reviewer")
    body = {
        "execution_id": written(execution.pk),
        "hold_id": execution.holds.get().id,
        "version": execution.version,
        "decision": "APPROVE",
    }
    answer = client.post("/api/v1/reviews/resume/", body)
    assert answer.status_code == 200, answer.content
    record = HumanReviewRecord.objects.get()
    assert (answer.json()["execution_id"], answer.json()["record_id"]) == (
        str(execution.pk), str(record.pk),
    )  # fmt: skip
    read = client.post("/api/v1/notifications/read/", {"ids": [written(1)]})
    assert read.status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("bad", [True, 1.0, 0, -1, "1.0", "x", "", "1" * 20, 2**63, None, [1]])
def test_an_invalid_id_is_named(bearer: Any, bad: Any) -> None:
    body = {"execution_id": bad, "hold_id": "1-1", "version": 1, "decision": "APPROVE"}
    answer = bearer("reviewer").post("/api/v1/reviews/resume/", body)
    assert answer.status_code == 422
    assert {each["path"] for each in answer.json()["errors"]} == {"execution_id"}
