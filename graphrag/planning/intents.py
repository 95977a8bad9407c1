"""Parse an intent in natural language into ordered steps with their literal values."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from graphrag import tokenizer
from graphrag.planning import literals
from graphrag.planning.literals import Literal

MAX_STEPS = 12

#: Verbs that begin a step.
VERBS = frozenset(
    """
    add analyse analyze annotate answer append apply approve archive ask assign attach audit
    book build calculate call cancel change check clear click clone close collect combine
    comment commit compare compile compress compute configure connect convert copy count
    create cut deactivate decline delete deploy describe detect diff disable display download
    draft drop duplicate edit email emit empty enable enumerate estimate evaluate execute
    export extract fetch fill filter find fix forget fork format forward generate get give
    grab group hide highlight import index inform insert inspect install join label launch
    link list load locate lock log look make mark measure mention merge modify move note
    notify open order parse paste patch pick pin ping place plan plot post prepare print
    process produce protect publish pull push put query react read rebase record redirect
    reformat register relate remember remind remove rename render reopen replace reply report
    request reschedule reset resize resolve respond restart restore retrieve return revert
    review rotate run save scale scan schedule score search see select send set share show
    shut sort split stage star start stop store submit subscribe sum summarise summarize
    switch sync tag take tell test track transform translate trigger turn unlock unzip update
    upgrade upload use validate verify view visit wait watch wipe withdraw write zip echo
    """.split()  # noqa: SIM905
)
_ASKS = frozenset({"what", "which", "who"})
#: Verbs that are a step without an object: "stage the files and commit".
_ALONE = frozenset({"commit", "deploy", "merge", "publish", "push"})
_BEFORE_VERB = re.compile(
    r"(?:(?:also|again|first|firstly|second|secondly|now|please|just|lastly|last|then|and|to|so"
    r"|kindly|there|(?:can|could|would|will)\s+you|let'?s|go\s+ahead\s+and|help\s+me(?:\s+to)?"
    r"|(?:i|we)(?:'d|\s+would)?\s+(?:want|need|like|have)(?:\s+you)?\s+to"
    r"|for\s+(?:each|every|all)(?:\s+one)?(?:\s+of\s+(?:them|these|those))?)\b[,\s]*)+",
    re.IGNORECASE,
)
_THEN = re.compile(
    r"(?:[;\n]|(?<=[\w\"'”`)\]])[.!?](?=\s)"
    r"|,?\s*\b(?:and then|then|after that|afterwards|finally|next(?=,|\s+\w+\s+(?:the|an?|it)\b))"
    r"\b,?)",
    re.IGNORECASE,
)
_AND = re.compile(r"(?:,\s*(?:and\b)?|\band\b|\bplus\b|&)\s*", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_SUBORDINATE = re.compile(
    r"\s*(?P<word>before|after|once|when|as soon as)\s+(?P<clause>[^,]+),\s*(?P<main>.+)",
    re.IGNORECASE | re.DOTALL,
)
_ENDS_BEFORE = re.compile(
    r"(?P<main>.+?),?\s+before\s+(?P<clause>\w+ing\b.+)", re.IGNORECASE | re.DOTALL
)
_ABOUT = re.compile(
    r"\b(?:for|about|on|regarding|matching|containing|called|named|mentioning)\s+", re.IGNORECASE
)
_HEAD = re.compile(r"\b(?:for|about|regarding)\s+", re.IGNORECASE)
_BACK = re.compile(
    r"\b(?:it|its|them|they|their|those|these|this|there|each|the\s+(?:results?|output|findings"
    r"|same|one|ones|(?:first|last|latest|newest|oldest|top)(?!\s+\d))|that(?=[.,\s]*$)|all\s+of)\b",
    re.IGNORECASE,
)
_DEFINITE = re.compile(
    r"\b(?:the|this|that|these|those|its|their)\s+(\w+(?:\s+\w+){0,2})", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_NAMING = frozenset("called named titled entitled saying matching containing".split())  # noqa: SIM905
_EXTENSION = re.compile(
    r"\b(csv|docx?|html?|ini|json|jsonl|log|md|pdf|py|toml|tsv|txt|xlsx?|xml|ya?ml)\b",
    re.IGNORECASE,
)
_POSSESSION = re.compile(r"(?:its|their)\s+\w", re.IGNORECASE)
_READS = frozenset(
    "describe display fetch find get give inspect list print read retrieve show".split()  # noqa: SIM905
)
_CREATES = re.compile(r"^\W*open\s+(?:up\s+)?(?:an?|another|new)\b", re.IGNORECASE)
#: "it" as the subject of a clause ("the service it created") adds nothing to the action.
_PRONOUN = re.compile(r"\b(?:it(?!\s+\w+ed\b)|its|them|they|their|there)\b", re.IGNORECASE)
_OBJECT_PRONOUNS = frozenset({"it", "them", "these", "those", "this", "that"})
_ADJECTIVES = frozenset(
    "last first latest newest oldest new old next all every same whole other whether both".split()  # noqa: SIM905
)
_PARTICLE = re.compile(
    r"\b(?P<verb>[a-z]+)\s+(?:(?:it|them|this|that|these|those|all|everything)\s+)?"
    r"(?P<particle>back|down|in|off|on|out|over|up)\b",
    re.IGNORECASE,
)
_PLACEHOLDERS = {
    "url": "url",
    "email": "email",
    "key": "issue",
    "date": "date",
    "datetime": "time",
    "time": "time",
}
#: Extension -> the kind of document, where it belongs to one application.
_FILE_WORDS = {
    "csv": "csv",
    "doc": "word document",
    "docx": "word document",
    "pdf": "pdf",
    "ppt": "presentation",
    "pptx": "presentation",
    "xls": "excel workbook",
    "xlsx": "excel workbook",
}
#: Kind of a literal -> what a pronoun refers to that stands for it.
_NOUNS = {**_PLACEHOLDERS, "path": "file", "slug": "repository", "url": "page"}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of the catalogue, lower case.

    ``servers`` are the words of the servers' names, ``verbs`` those that begin the names of tools,
    ``stems`` the stems of all its texts.
    """

    servers: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    stems: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """One action. ``after_previous`` when the text says that it follows the previous step.

    ``antecedent`` is the object of the previous step, to which "it" refers. ``joined`` are verbs
    with their particle as the catalogue writes them: ``checkout`` of "check it out".
    """

    text: str
    after_previous: bool = False
    literals: tuple[Literal, ...] = ()
    antecedent: str = ""
    joined: str = ""

    @property
    def query(self) -> str:
        """The search query for tools: the text without literal values, but with names.

        A pronoun adds the noun to which it refers.
        """
        parts = (self._plain_query, self.joined, self.antecedent if self.has_pronoun else "")
        return " ".join(filter(None, parts))

    @property
    def has_pronoun(self) -> bool:
        """Whether "it", "them" or "there" stands for the object of the previous step."""
        return bool(_PRONOUN.search(_without_quotations(self)))

    @property
    def referents(self) -> frozenset[str]:
        """Stems of the things of earlier steps that the text refers to, by noun or pronoun."""
        by_pronoun = tokenizer.stems(self.antecedent) if self.has_pronoun else ()
        return self.definite_stems.union(by_pronoun)

    @property
    def object(self) -> str:
        """The first noun phrase after the verb: ``branch`` of ``create a branch named x``."""
        words = self._after_verb()
        if words and words[0][0] in _OBJECT_PRONOUNS:
            return ""
        phrase: list[str] = []
        for word, literal in words:
            if literal is not None and not phrase and literal.kind != "number":
                return _NOUNS.get(literal.kind, "")
            ends = literal is not None or word in _NAMING or word in tokenizer.STOP_WORDS
            if phrase and (ends or word.endswith("ed")):
                break
            if not ends and word.isalpha() and word not in _ADJECTIVES:
                phrase.append(word)
        return " ".join(phrase[-3:])

    def _after_verb(self) -> list[tuple[str, Literal | None]]:
        words = self._plain_words()
        verb = next(
            (at for at, (word, _) in enumerate(words, 1) if word in VERBS or word in _ASKS), 0
        )
        return words[verb:]

    def _plain_words(self) -> list[tuple[str, Literal | None]]:
        """Return the words in their order, lower case; a literal is one without a text."""
        found: list[tuple[str, Literal | None]] = []
        written, end = self.text.lower(), 0
        for each in self.literals:
            found += [(word, None) for word in _WORD.findall(written[end : each.start])]
            found.append(("", each))
            end = each.end
        return found + [(word, None) for word in _WORD.findall(written[end:])]

    @property
    def _plain_query(self) -> str:
        parts, end = [], 0
        for each in self.literals:
            parts.append(self.text[end : each.start])
            parts.append(f" {self._placeholder(each)} ")
            end = each.end
        return "".join((*parts, self.text[end:]))

    @staticmethod
    def _placeholder(found: Literal) -> str:
        if found.kind == "path":
            _, dot, extension = str(found.value).rpartition("/")[2].rpartition(".")
            return f"{_FILE_WORDS.get(extension.lower(), '')} file" if dot else ""
        if found.kind == "mark":
            return "channel" if str(found.value).startswith("#") else "user"
        if found.kind == "relative":
            return str(found.value)
        if found.kind == "name" and str(found.value).replace(" ", "").isalpha():
            return str(found.value)
        return _PLACEHOLDERS.get(found.kind, "")

    @property
    def head(self) -> str:
        """The query without its object: ``search arXiv`` of ``search arXiv for birds``."""
        head = _HEAD.split(self.query, maxsplit=1)[0]
        return head if len(tokenizer.content_words(head)) > 1 else self.query

    @property
    def subject(self) -> str:
        """The text after "for" or "about", otherwise after "on" or "called", or all of it."""
        pattern = _HEAD if _HEAD.search(self.text) else _ABOUT
        return pattern.split(self.text, maxsplit=1)[-1].strip(" .?!")

    @property
    def verb(self) -> str:
        """The stem of its first verb; empty without one. "Open a request" creates one."""
        if _CREATES.search(self.text):
            return tokenizer.stem("create")
        words = (word.strip(".,:!?").lower() for word in self.text.split())
        return next((tokenizer.stem(word) for word in words if word in VERBS or word in _ASKS), "")

    @property
    def has_subject(self) -> bool:
        """Whether the text says what it is about: "for", "about"."""
        return bool(_ABOUT.search(self.text))

    @property
    def extension(self) -> str:
        """The file extension that the text names, or an empty string."""
        found = _EXTENSION.search(self.text)
        return found.group(1).lower() if found else ""

    @property
    def refers_back(self) -> bool:
        """Whether a word refers to an earlier step: ``it``, ``them``, ``the result``."""
        return bool(_BACK.search(_without_quotations(self)))

    @property
    def definite_stems(self) -> frozenset[str]:
        """Stems of the nouns with a definite article: ``page`` of ``read the page``."""
        found: set[str] = set()
        for phrase in _DEFINITE.findall(_without_quotations(self)):
            words = takewhile(lambda word: word not in tokenizer.STOP_WORDS, phrase.lower().split())
            found.update(map(tokenizer.stem, words))
        return frozenset(found)


_NO_WORDS = Vocabulary()


def _without_quotations(step: Step) -> str:
    parts, end = [], 0
    for each in step.literals:
        if each.kind == "quoted":
            parts.append(step.text[end : each.start])
            end = each.end
    return " ".join((*parts, step.text[end:]))


def steps(intent: str, *, vocabulary: Vocabulary = _NO_WORDS, antecedent: str = "") -> list[Step]:
    """Return the steps of an intent, at most 12.

    ``then``, semicolons, ends of sentences and line breaks separate consecutive steps; ``and`` and
    commas separate steps only where a new action begins ("read the log and draft notes", not "date
    and time"). Names of servers are no values; the catalogue's verbs begin an action as well.
    ``antecedent`` is what "it" means in the first step.
    """
    plain = _BULLET.sub("", intent.replace("\x00", " "))
    verbs = VERBS | vocabulary.verbs
    found: list[Step] = []
    for sentence in _outside_literals(plain, _THEN):
        for part_at, part in enumerate(_in_order(sentence)):
            for at, piece in enumerate(_actions(part, verbs)):
                if tokenizer.stems(piece):
                    after = bool(found) and at == 0
                    step = Step(
                        piece,
                        after or (part_at > 0 and at == 0),
                        literals.find(piece, ignored=vocabulary.servers),
                        _antecedent(found) or antecedent,
                        _joined(piece, vocabulary),
                    )
                    found.append(step)
    return found[:MAX_STEPS]


def _antecedent(earlier: Sequence[Step]) -> str:
    """Return the object of the last step that has one."""
    return next((step.object for step in reversed(earlier) if step.object), "")


def _joined(piece: str, vocabulary: Vocabulary) -> str:
    """Return the particle verbs that the catalogue writes as one word."""
    joined = (f"{found['verb']}{found['particle']}".lower() for found in _PARTICLE.finditer(piece))
    return " ".join(word for word in joined if tokenizer.stem(word) in vocabulary.stems)


def _in_order(sentence: str) -> list[str]:
    """Return the clauses of "after a, b" and "before b, a" in the order of their actions."""
    found = _SUBORDINATE.fullmatch(sentence)
    if found and _starts_action(found["main"]):
        clause, main = _as_action(found["clause"]), found["main"]
        if clause:
            return [main, clause] if found["word"].lower() == "before" else [clause, main]
    found = _ENDS_BEFORE.fullmatch(sentence)
    if found and (clause := _as_action(found["clause"])):
        return [found["main"], clause]
    return [sentence]


def _as_action(clause: str) -> str:
    """Return a clause as an action: "you delete it" -> "delete it"; empty for other clauses."""
    words = re.sub(r"^(?:i|we|you)\s+(?:have\s+)?", "", clause, flags=re.IGNORECASE).split(
        maxsplit=1
    )
    if not words:
        return ""
    first = words[0].lower()
    base = tokenizer.stem(first)
    verb = next((each for each in (first, base, f"{base}e") if each in VERBS), None)
    verb = verb or next((each for each in VERBS if tokenizer.stem(each) == base), None)
    return " ".join((verb, *words[1:])) if verb else ""


def _outside_literals(written: str, separator: re.Pattern[str]) -> list[str]:
    """Split at a separator that is not inside a URL, a path or a quotation."""
    closed = [
        (each.start, each.end)
        for each in literals.find(written)
        if each.kind in ("url", "quoted", "path", "email")
    ]
    parts, start = [], 0
    for match in separator.finditer(written):
        if not any(first <= match.start() < last for first, last in closed):
            parts.append(written[start : match.start()].strip())
            start = match.end()
    return [part for part in (*parts, written[start:].strip()) if part]


def _actions(part: str, verbs: Collection[str]) -> Iterator[str]:
    """Split a clause into pieces that each begin with an action and have an object."""
    current = ""
    for piece in _outside_literals(part, _AND):
        if current and _starts_action(piece, verbs) and _has_object(current):
            yield current
            current = piece
        elif current and _POSSESSION.match(piece) and (verb := _reading_verb(current)):
            yield current
            current = f"{verb} {piece}"
        else:
            current = f"{current} and {piece}" if current else piece
    if current:
        yield current


def _reading_verb(piece: str) -> str:
    """Return the verb of a piece that only reads: "get the page" has one that "its links" share."""
    words = (word.lower() for word in _WORD.findall(piece))
    verb = next((word for word in words if word in VERBS), "")
    return verb if verb in _READS else ""


def _starts_action(piece: str, verbs: Collection[str] = VERBS) -> bool:
    """Whether a piece begins with a verb in its base form that has an object."""
    words = (
        _BEFORE_VERB.sub("", piece, count=1).split() if _BEFORE_VERB.match(piece) else piece.split()
    )
    verb = words[0].strip(".,:!?").lower() if words else ""
    return verb in verbs and (len(words) > 1 or verb in _ALONE)


def _has_object(piece: str) -> bool:
    words = piece.split()
    return len(words) > 1 or words[0].lower() in _ALONE
