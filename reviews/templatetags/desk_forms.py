"""Fields of Django forms, drawn with the classes of the desk."""

from __future__ import annotations

from django import forms, template
from django.forms import BoundField
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def desk_widget(field: BoundField) -> SafeString:
    """Return the widget of a field; check boxes have no frame."""
    widget = field.field.widget
    if isinstance(widget, forms.CheckboxInput):
        return field.as_widget()
    kind = "select" if isinstance(widget, forms.Select) else "input"
    return field.as_widget(attrs={"class": f"{widget.attrs.get('class', '')} {kind}".strip()})


@register.filter
def is_checkbox(field: BoundField) -> bool:
    """Return whether the field is a single check box, whose label follows it."""
    return isinstance(field.field.widget, forms.CheckboxInput)
