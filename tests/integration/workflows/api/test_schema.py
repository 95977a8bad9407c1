"""The OpenAPI document: complete, valid, without a warning."""

import json
import re
from typing import Any

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.integration.workflows.api.routes import api_routes


@pytest.fixture(scope="module")
def schema() -> Any:
    GENERATOR_STATS.reset()
    made = SchemaGenerator().get_schema(public=True)
    assert dict(GENERATOR_STATS._warn_cache) == {}
    assert dict(GENERATOR_STATS._error_cache) == {}
    return made


def test_the_document_is_valid(schema) -> None:
    validate_schema(schema)


def test_openapi_spec_validator_finds_nothing_wrong(schema) -> None:
    """References, defaults, path parameters and operation ids too, which a JSON Schema misses."""
    found = OpenAPIV31SpecValidator(json.loads(json.dumps(schema))).iter_errors()
    assert [(list(error.absolute_path), error.message) for error in found] == []


def test_the_document_uses_only_openapi_3_1(schema) -> None:
    """`nullable` is of 3.0; in 3.1 it says nothing, and null would not be allowed."""
    assert schema["openapi"].startswith("3.1")
    assert '"nullable"' not in json.dumps(schema)


def test_every_route_and_method_is_described(schema) -> None:
    paths = schema["paths"].items()
    described = {(plain(path), method.upper()) for path, item in paths for method in item}
    served = {(plain(route.path), method) for route in api_routes() for method in route.methods}
    assert served
    assert served <= described


def plain(path: str) -> str:
    """The path without the names of its arguments."""
    return re.sub(r"{\w+}", "{}", path).strip("/")


def test_every_operation_documents_its_errors(schema) -> None:
    for path, item in schema["paths"].items():
        if not path.startswith(("/api/v1/executions", "/api/v1/workflows", "/api/v1/tokens")):
            continue
        for method, operation in item.items():
            assert "401" in operation["responses"], (path, method)
            refusal = operation["responses"]["401"]["content"]
            assert list(refusal) == ["application/problem+json"]
            assert {"token": []} in operation["security"]


SENT = {
    "POST /api/v1/executions/": (201, 422),  # 422: the example's workflow is not there
    "POST /api/v1/executions/{execution_id}/commands/": (200, 202, 409),
    "POST /api/v1/reviews/resume/": (404,),
    "POST /api/v1/workflows/": (201,),
    "POST /api/v1/tokens/": (201, 422),
}


@pytest.mark.django_db
def test_the_example_requests_are_accepted(schema, bearer, start) -> None:
    client = bearer("admin")
    execution = start("operator")
    sent = set()
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {})
            for name, example in content.get("application/json", {}).get("examples", {}).items():
                label = f"{method.upper()} {path}"
                if label not in SENT:
                    continue  # recorded from requests that were sent
                url = path.format(execution_id=execution.pk)
                response = client.generic(
                    method.upper(), url, json.dumps(example["value"]), "application/json"
                )
                assert response.status_code in SENT[label], (name, response.content)
                if response.status_code == 422:
                    codes = {each["code"] for each in response.json()["errors"]}
                    assert codes == {"unknown_workflow"}
                sent.add(label)
    assert sent == set(SENT)
