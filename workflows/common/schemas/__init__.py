"""JSON Schema: validation, schemas of functions and values, HTML forms and their submissions."""

from __future__ import annotations

from .callables import schema_from_callable
from .form_submission import FormValue, value_from_form
from .forms import FormField, Option, form_fields
from .inference import infer_schema, infer_type
from .undeclared_keys import undeclared_keys
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
    "undeclared_keys",
    "value_from_form",
]
