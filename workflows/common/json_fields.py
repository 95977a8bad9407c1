"""JSON form fields with a bounded parser, edited as text."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput

from workflows.engine.values.bounded_json import BoundedJSONError, parse


class JSONTextarea(forms.Textarea):
    """Text with a label of its own; the plan editor is the place for forms and diagrams."""

    class Media:
        css = {"all": ("workflows/admin.css",)}

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        plain = {"rows": 14, "cols": 90, "class": "json-source mono", "spellcheck": "false"}
        super().__init__({**plain, **(attrs or {})})


class BoundedJSONField(forms.JSONField):
    """JSON within the limits of storage; empty or missing text becomes the value `empty`.

    A form for a new object shows that value as well: Django would show `null`.
    """

    widget = JSONTextarea

    def __init__(self, *, empty: Any = None, **kwargs: Any) -> None:
        self._empty = {} if empty is None else empty
        super().__init__(**{"initial": self._empty, **kwargs})

    def to_python(self, value: Any) -> Any:
        if value is None:
            return self._empty
        if not isinstance(value, str) or isinstance(value, InvalidJSONInput):
            return value
        if not value.strip():
            return self._empty
        try:
            return parse(value)
        except BoundedJSONError as error:
            raise ValidationError(str(error), code="invalid") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            return parse(data) if isinstance(data, str) and data.strip() else initial
        except BoundedJSONError:
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)
