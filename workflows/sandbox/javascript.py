"""Wrap a JavaScript or TypeScript program for import by Deno.

A program is an ES module (it has `export` or a static `import`), one expression, or the body of an
async function. Each form becomes a data URL.
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
    """A wrapped program: `offset` lines precede the first line of the user's code.

    `refusal` says why it is not run although it can be parsed.
    """

    name: FormName
    url: str
    offset: int
    refusal: str | None = None

    def message(self) -> dict[str, str | int | None]:
        """Return the form as JSON for the harness."""
        return asdict(self)


def input_names(inputs: Iterable[str]) -> list[str]:
    """Return the inputs that can be variables; the program reads the others from `inputs`."""
    return [
        name for name in inputs if name.replace("$", "_").isidentifier() and name not in _RESERVED
    ]


def forms(code: str, names: list[str], language: str) -> list[Form]:
    """Return the forms to import, in order; the next one is tried after a syntax error."""
    media = _MEDIA[language]
    if _MODULE.search(code):
        return [_form("module", code, 0, media)]
    parameters = ", ".join(["inputs", *names])
    expression = code.rstrip().rstrip(";")
    shape = f"export default async ({parameters}) => (\n{expression}\n);"
    # The inner block allows the code to redeclare the name of an input.
    body = f"export default async function ({parameters}) {{ {{\n{code}\n}} }}"
    refusal = None if _RETURN.search(code) else NO_VALUE
    return [_form("expression", shape, 1, media), _form("body", body, 1, media, refusal)]


def _form(name: FormName, source: str, offset: int, media: str, refusal: str | None = None) -> Form:
    data = base64.b64encode(source.encode()).decode("ascii")
    return Form(name, f"data:{media};base64,{data}", offset, refusal)


def user_code_line(stack: str, offset: int, last: int) -> int | None:
    """Return the first line of the user's code in a stack trace, or None.

    The program can forge stack traces; a line outside of 1 to `last` gives None.
    """
    match = _LINE.search(stack)
    line = max(int(match[1]) - offset, 1) if match else 0
    return line if 1 <= line <= last else None
