"""What is kept in English is shown in the reader's language, with what varies put back in."""

import pytest
from django.utils import translation

from reviews.components.sentences import in_language
from reviews.runs.timeline import entry
from workflows.engine.permissions import PermissionSet
from workflows.engine.task_errors import attempt_words
from workflows.models import ExecutionEvent


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        (
            "task a asks for review before it runs",
            "la tâche a demande une revue avant son exécution",
        ),
        (
            "layer 2 needs a signature (policy: always)",
            "la couche 2 demande une signature (règle\N{NO-BREAK SPACE}: always)",
        ),
        (attempt_words("net", "api.example:443"), "se connecter à api.example:443"),
        (
            PermissionSet(hosts=("api.example:443",)).sentences()[0],
            "Se connecter à api.example sur le port 443.",
        ),
        (
            "the condition of rule small files v3 holds",
            "la condition de la règle small files v3 est remplie",
        ),
        (
            "task a asks for review before it runs; picked by rule half v1 (hash 0.25 < 0.5)",
            "la tâche a demande une revue avant son exécution; "
            "choisie par la règle half v1 (hash 0.25 < 0.5)",
        ),
        ("draft was rejected", "draft a été rejetée"),
        (
            "layer approval was rejected",
            "l\N{RIGHT SINGLE QUOTATION MARK}approbation de la couche a été rejetée",
        ),
        ("nobody decided in time", "personne n\N{RIGHT SINGLE QUOTATION MARK}a décidé à temps"),
        ("nothing that is listed; task a may not", "nothing that is listed; task a may not"),
        ("must be between 1 and 9", "doit être compris entre 1 et 9"),
        ("100 % of something nobody listed", "100 % of something nobody listed"),
        ("", ""),
    ],
)
def test_kept_sentences_are_shown_in_french(kept: str, shown: str) -> None:
    with translation.override("fr"):
        assert in_language(kept) == shown
    with translation.override("en"):
        assert in_language(kept) == kept


def test_why_a_run_was_aborted_is_said_in_the_readers_language() -> None:
    event = ExecutionEvent(
        seq=9, kind="execution_aborted", payload={"reason": "draft was rejected"}, actor="ann"
    )
    assert entry(event)["sentence"] == "ann aborted the run: draft was rejected"
    french = "l\N{RIGHT SINGLE QUOTATION MARK}exécution\N{NO-BREAK SPACE}: draft a été rejetée"
    with translation.override("fr"):
        assert entry(event)["sentence"] == f"ann a interrompu {french}"
