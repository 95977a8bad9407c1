"""The diagram in docs/protocol.md equals the table of status transitions."""

import re

from tests.architecture.files import ROOT
from workflows.engine.protocol.status import TRANSITIONS, ExecutionStatus

ARROW = re.compile(r"^\s*(\[\*\]|\w+)\s*-->\s*(\[\*\]|\w+)", re.MULTILINE)
DIAGRAM = re.compile(r"```mermaid\s*\n\s*stateDiagram(?:-v2)?\b(.*?)```", re.DOTALL)


def drawn() -> set[tuple[str, str]]:
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    diagrams = DIAGRAM.findall(text)
    assert len(diagrams) == 1, "docs/protocol.md has one Mermaid state diagram"
    return set(ARROW.findall(diagrams[0]))


def test_the_arrows_are_the_permitted_transitions() -> None:
    inner = {(old, new) for old, new in drawn() if "[*]" not in (old, new)}
    assert inner == {
        (old.value, new.value) for old, targets in TRANSITIONS.items() for new in targets
    }


def test_the_diagram_starts_at_pending_and_ends_at_the_final_statuses() -> None:
    starts = {new for old, new in drawn() if old == "[*]"}
    ends = {old for old, new in drawn() if new == "[*]"}
    assert starts == {ExecutionStatus.PENDING.value}
    assert ends == {status.value for status in ExecutionStatus if status.is_final}
