"""Each operation of the OpenAPI document has examples that match its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator, FormatChecker

from reviews.audit.chain import record_hash
from workflows.api.examples import _recorded

DOCUMENT = SchemaGenerator().get_schema(public=True)
JSON = "application/json"


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Where, and the media type: what is sent, and what a success answers with."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            name = f"{method.upper()} {path}"
            if JSON in operation.get("requestBody", {}).get("content", {}):
                yield f"{name} request", operation["requestBody"]["content"][JSON]
            for status, answer in operation["responses"].items():
                if status.startswith("2") and JSON in answer.get("content", {}):
                    yield f"{name} {status}", answer["content"][JSON]


@pytest.mark.parametrize(("where", "media"), list(bodies()), ids=lambda each: str(each)[:60])
def test_every_body_has_an_example_that_fits_its_schema(where, media) -> None:
    assert media.get("examples"), where
    schema = {**media["schema"], "components": DOCUMENT["components"]}
    validator = Draft202012Validator(schema, format_checker=FormatChecker())
    for example in media["examples"].values():
        found = [
            (list(e.absolute_path), e.message) for e in validator.iter_errors(example["value"])
        ]
        assert not found, where


def test_the_document_has_bodies() -> None:
    """The parameters above are not empty by mistake."""
    names = [where for where, _ in bodies()]
    assert sum(name.endswith("request") for name in names) >= 18
    assert sum(not name.endswith("request") for name in names) >= 45


def test_every_recorded_example_is_of_an_operation() -> None:
    items = [op for item in DOCUMENT["paths"].values() for op in item.values()]
    assert _recorded().keys() <= {each["operationId"] for each in items}


def test_examples_contain_no_secret_or_machine_name() -> None:
    text = json.dumps(_recorded())
    for word in ("127.0.0.1", "testserver", "/tmp", "/root", "/work"):
        assert word not in text


def test_the_recorded_audit_chain_verifies() -> None:
    record = _recorded()["reviews_record"]["responses"]["200"]
    assert record["hash"] == record_hash(record["previous_hash"], record["canonical"])
