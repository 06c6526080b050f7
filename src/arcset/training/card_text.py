"""Pieces of Markdown: tables that also read well as plain text, and the front matter of hubs."""

import json
import re
from collections.abc import Mapping, Sequence

__all__ = [
    "code",
    "front_matter",
    "table",
]

_PLAIN = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)  # what YAML reads as text without quotes …
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}  # … but for these


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table whose columns line up, those in `right` flush right; the last one is not filled up.

    >>> print(table(["part", "images"], [["train", "1,600"], ["test", "40"]], right=[1]))
    | part  | images |
    |:------|-------:|
    | train |  1,600 |
    | test  |     40 |
    """
    cells = [[_cell(text) for text in row] for row in (header, *rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]
    if len(header) - 1 not in right:
        widths[-1] = 0
    lines = []
    for row in cells:
        filled = [
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(filled)} |")
    rules = [
        "-" * (width + 1) + ":" if place in right else ":" + "-" * max(width + 1, 2)
        for place, width in enumerate(widths)
    ]
    return "\n".join([lines[0], f"|{'|'.join(rules)}|", *lines[1:]])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """As code; text with a backtick in it stands between two, as Markdown wants it.

    >>> code("arcset evaluate RUN")
    '`arcset evaluate RUN`'
    """
    text = " ".join(text.split()) or " "
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def front_matter(fields: Mapping[str, str | Sequence[str]]) -> str:
    """YAML between two lines of dashes: texts and lists of texts; what is empty is left out.

    >>> print(front_matter({"license": "mit", "tags": ["arcset", "a: b"], "metrics": []}))
    ---
    license: mit
    tags:
    - arcset
    - "a: b"
    ---
    """
    lines = []
    for key, value in fields.items():
        if isinstance(value, str):
            lines += [f"{key}: {_scalar(value)}"] if value else []
        elif value:
            lines += [f"{key}:", *(f"- {_scalar(item)}" for item in value)]
    return "\n".join(["---", *lines, "---"])


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)  # a text of JSON is one of YAML
