"""How a JavaScript or TypeScript program is dressed before Deno imports it.

A program is one of three things: an ES module (it has `export` or static `import`), one
expression, or the body of an async function. Each form becomes a data URL.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal

FormName = Literal["module", "expression", "body"]

_MODULE = re.compile(r"^\s*(export\b|import\b(?!\s*\())", re.MULTILINE)
_RETURN = re.compile(r"\breturn\b")
_RESERVED: Final = frozenset(
    """
    arguments await break case catch class const continue debugger default delete do else enum eval
    export extends false finally for function if implements import in inputs instanceof interface
    let new null package private protected public return static super switch this throw true try
    typeof undefined var void while with yield
    """.split()  # noqa: SIM905 - a list of words reads better without forty pairs of quotes
)
_MEDIA: Final = {"typescript": "application/typescript", "javascript": "text/javascript"}
_LINE = re.compile(r"data:[a-z]+/[a-z]+;base64,[^\s:]*:(\d{1,9}):\d+")

NO_VALUE: Final = (
    "The program gives no value: write one expression, end it with `return ...`, "
    "or `export default` a value or a function of the inputs"
)


@dataclass(frozen=True)
class Form:
    """A dressed program: `offset` lines stand before the first line of the user's code.

    `refusal` says why it is not run even though it can be parsed.
    """

    name: FormName
    url: str
    offset: int
    refusal: str | None = None

    def message(self) -> dict[str, str | int | None]:
        """The form as the harness reads it."""
        return asdict(self)


def input_names(inputs: Iterable[str]) -> list[str]:
    """The inputs that can be variables; the others are reached through `inputs`."""
    return [
        name for name in inputs if name.replace("$", "_").isidentifier() and name not in _RESERVED
    ]


def forms(code: str, names: list[str], language: str) -> list[Form]:
    """What to try to import, in order; only the parse may fail before the last one."""
    media = _MEDIA[language]
    if _MODULE.search(code):
        return [_form("module", code, 0, media)]
    parameters = ", ".join(["inputs", *names])
    expression = code.rstrip().rstrip(";")
    shape = f"export default async ({parameters}) => (\n{expression}\n);"
    # The inner block lets the code declare a variable that has the name of an input.
    body = f"export default async function ({parameters}) {{ {{\n{code}\n}} }}"
    refusal = None if _RETURN.search(code) else NO_VALUE
    return [_form("expression", shape, 1, media), _form("body", body, 1, media, refusal)]


def _form(name: FormName, source: str, offset: int, media: str, refusal: str | None = None) -> Form:
    data = base64.b64encode(source.encode()).decode("ascii")
    return Form(name, f"data:{media};base64,{data}", offset, refusal)


def line_of(stack: str, offset: int, last: int) -> int | None:
    """The first line of the user's code in a stack trace; None when it is not one of 1 to `last`.

    The program can write its own stack traces.
    """
    found = _LINE.search(stack)
    line = max(int(found[1]) - offset, 1) if found else 0
    return line if 1 <= line <= last else None
