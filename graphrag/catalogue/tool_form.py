"""The form of what people decide about a tool, for the admin and the desk."""

from typing import Any

from django import forms

from graphrag import conf
from graphrag.catalogue import ingest
from graphrag.models import Tool, ToolKind

_MARK_FIELDS = frozenset(f"set_{mark}" for mark in ingest.MARKS)
_DECLARED = {
    "read_only": "The server now declares this tool as read-only. Choose “Read-only” to accept it.",
    "destructive": "The server no longer declares this tool as destructive. Choose “Not"
    " destructive” to accept it.",
}


class ToolForm(forms.ModelForm[Tool]):
    """The fields of a tool that a person decides."""

    permission_set = forms.ChoiceField()
    set_read_only = forms.ChoiceField(
        label="Set read-only",
        required=False,
        choices=(("", "As the server declares"), ("yes", "Read-only"), ("no", "Can modify data")),
        help_text="Speculation may run read-only tools before a decision.",
    )
    set_destructive = forms.ChoiceField(
        label="Set destructive",
        required=False,
        choices=(("", "As the server declares"), ("yes", "Destructive"), ("no", "Not destructive")),
    )

    class Meta:
        model = Tool
        fields = ("enabled", "permission_set")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = dict.fromkeys((*conf.permission_sets(), self.instance.permission_set))
        field = self.fields.get("permission_set")
        if isinstance(field, forms.ChoiceField):
            field.choices = [(name, name) for name in names]
        for mark in self.instance.looser_marks:
            if f"set_{mark}" in self.fields:
                self.fields[f"set_{mark}"].help_text = _DECLARED[mark]
        for mark in ingest.MARKS:
            value = self.instance.marks_by_hand.get(mark)
            if value is not None and f"set_{mark}" in self.fields:
                self.initial[f"set_{mark}"] = "yes" if value else "no"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        marks = self.marks(cleaned)
        if marks and self.instance.kind != ToolKind.MCP:
            raise forms.ValidationError("Only the marks of MCP tools can be set by hand.")
        if marks.get("read_only") and marks.get("destructive"):
            raise forms.ValidationError("A tool that destroys data is not read-only.")
        return cleaned

    @staticmethod
    def marks(cleaned: dict[str, Any]) -> dict[str, bool]:
        """Return the marks that the person set."""
        chosen = {mark: cleaned.get(f"set_{mark}") for mark in ingest.MARKS}
        return {mark: value == "yes" for mark, value in chosen.items() if value}

    def save_policy(self) -> None:
        """Store only what the person changed, as a choice that later syncs respect."""
        changed, cleaned = self.changed_data, self.cleaned_data
        ingest.set_tool_policy(
            name=self.instance.name,
            enabled=cleaned["enabled"] if "enabled" in changed else None,
            permission_set=cleaned["permission_set"] if "permission_set" in changed else None,
            marks=self.marks(cleaned) if _MARK_FIELDS.intersection(changed) else None,
        )
