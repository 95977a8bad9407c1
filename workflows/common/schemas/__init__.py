"""JSON Schema: checking values, schemas of functions, forms and what comes back from them."""

from __future__ import annotations

from .callables import schema_from_callable
from .fields import FormField, Option, form_fields
from .inference import infer_schema, infer_type
from .submission import FormValue, value_from_form
from .unnamed import unnamed_keys
from .validation import FieldError, schema_errors, schema_problem

__all__ = [
    "FieldError",
    "FormField",
    "FormValue",
    "Option",
    "form_fields",
    "infer_schema",
    "infer_type",
    "schema_errors",
    "schema_from_callable",
    "schema_problem",
    "unnamed_keys",
    "value_from_form",
]
