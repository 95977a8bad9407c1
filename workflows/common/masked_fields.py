"""Model fields for what people write about an object: likely secrets are masked as it is stored."""

from __future__ import annotations

from typing import Any

from django.db import models

from workflows.common.redaction import mask_secrets


class MaskedCharField(models.CharField[str, str]):
    """A CharField; a mask that makes the text too long is cut."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: FBT001
        return _masked(self, model_instance)

    def deconstruct(self) -> Any:
        """Be a CharField to migrations: the column is the same."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs


class MaskedTextField(models.TextField[str, str]):
    """A TextField."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:  # noqa: FBT001
        return _masked(self, model_instance)

    def deconstruct(self) -> Any:
        """Be a TextField to migrations: the column is the same."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs


def _masked(field: models.Field[Any, Any], model_instance: models.Model) -> Any:
    """Mask the value that is stored, and the attribute, which its caller goes on with."""
    value = getattr(model_instance, field.attname)
    if isinstance(value, str):
        value = mask_secrets(value)[: field.max_length]
        setattr(model_instance, field.attname, value)
    return value
