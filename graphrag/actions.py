"""How much a query asks for, and how much a tool does: read, change or destroy.

Short lists of common verbs, in English, French and German. A verb that is not listed neither asks
for a destructive tool nor speaks against a tool that reads or changes something.
"""

from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

from graphrag import tokenizer

_READ = tokenizer.stem_set("""
get list search read show find fetch view describe download extract compare look lookup retrieve
display check print query trace diff status count what which who whose where when how tell
summary summarize summarise locate see inspect explain open whats why
affiche afficher montre montrer liste lister cherche chercher trouve trouver lis lire quel quels
quelle quelles combien résume résumer télécharge télécharger
zeige zeig anzeigen suche finde lies lese welche welcher welches wer wo wann wieviel
""")
_CHANGE_WORDS = """
create add insert put write attach upload commit update edit rename move set change assign link
copy make start save format merge sort replace convert load import append record log register
send post publish reply schedule book approve apply push
"""
_FOREIGN_CHANGE_WORDS = """
crée créer ajoute ajouter écris écrire modifie modifier renomme renommer déplace déplacer
envoie envoyer publie publier enregistre enregistrer copie copier remplace remplacer insère insérer
planifie planifier réserve réserver mets mettre réponds répondre
erstelle erstellen füge hinzufügen schreib schreibe schreiben ändere ändern bearbeite bearbeiten
verschiebe verschieben sende senden schick schicke schicken veröffentliche veröffentlichen
speichere speichern kopiere kopieren ersetze ersetzen setze setzen trage eintragen buche buchen
antworte antworten
"""
_CHANGE = tokenizer.stem_set(_CHANGE_WORDS)
_CHANGE_VERBS = frozenset([*_CHANGE_WORDS.split(), *_FOREIGN_CHANGE_WORDS.split()])
_INDEFINITE = {"a", "an", "another", "new"}
_GIVE = {"give", "tell", "bring", "gib", "gebt", "donne", "donnez", "dis"}
_TO_ME = {"me", "us", "mir", "uns", "moi", "nous"}
_DESTROY = tokenizer.stem_set("""
delete remove drop erase wipe purge destroy trash uninstall truncate
supprime supprimer efface effacer lösche löschen entferne entfernen
""")
_DESTROY_IN_QUERIES = _DESTROY | tokenizer.stem_set("""
clear empty reset discard forget cancel clean cleanup rid throw kill terminate unlink revoke undo
leeren leere verwerfen verwirf stornieren storniere
retire retirer enlève enlever vide vider annule annuler
""")


class Effect(IntEnum):
    """What a tool does to data, or a query asks for; a higher one needs more caution."""

    READ = 0
    CHANGE = 1
    DESTROY = 2


def asked(query: str) -> Effect | None:
    """Return what a query asks for; None when it has no listed verb.

    Any verb of destruction counts, otherwise the first verb.
    """
    words = tokenizer.words(query)
    if not _DESTROY_IN_QUERIES.isdisjoint(map(tokenizer.stem, words)):
        return Effect.DESTROY
    return _first(words)


def of_tool(own_name: str, *, read_only: bool, destructive: bool | None) -> Effect:
    """Return what a tool does: by its marks where they decide, otherwise by the verb in its name.

    Servers mark a tool that overwrites a file as destructive too; the verb tells it from a tool
    that deletes.
    """
    if read_only:
        return Effect.READ
    by_name = _of_name(own_name)
    if by_name is None:
        return Effect.DESTROY if destructive else Effect.CHANGE
    return max(by_name, Effect.CHANGE) if destructive else by_name


def can_destroy(own_name: str, *, kind: str, read_only: bool, destructive: bool | None) -> bool:
    """Whether a person must review each task with the tool.

    Without a mark, a tool of an MCP server that is not read-only counts as destructive, as MCP
    defines its `destructiveHint`. Other tools have no such mark: the verb of their name decides.
    """
    if destructive is None and not read_only:
        return kind == "mcp" or _of_name(own_name) is Effect.DESTROY
    return bool(destructive)


def names_only_actions(stems: Collection[str]) -> bool:
    """Whether there are stems, and all of them are verbs of the lists: they name no object."""
    return bool(stems) and (_READ | _CHANGE | _DESTROY_IN_QUERIES).issuperset(stems)


def _first(words: Sequence[str]) -> Effect | None:
    """Return the effect of the first verb; a verb of change counts in its base form only.

    "the last commits" and "the changes" are objects, not requests. "Open a pull request" creates
    one, "open the file" reads it: before an indefinite object, the verb tells neither.
    """
    for word, following in pairwise([*words, ""]):
        if word == "open" and following in _INDEFINITE:
            continue
        if word in _CHANGE_VERBS:
            return Effect.CHANGE
        if tokenizer.stem(word) in _READ or (word in _GIVE and following in _TO_ME):
            return Effect.READ
    return None


# Key: the name; bound: 16,384; a constant function.
@lru_cache(maxsize=16_384)
def _of_name(name: str) -> Effect | None:
    for word in tokenizer.words(name):
        stem = tokenizer.stem(word)
        if stem in _DESTROY:
            return Effect.DESTROY
        if stem in _CHANGE:
            return Effect.CHANGE
        if stem in _READ:
            return Effect.READ
    return None
