"""`arcset serve` with something added that a test watches."""

import os
import sys
import tempfile
from typing import Any

from arcset.cli import main

__all__ = ["main_that_tells_what_it_opens", "main_with_a_route"]


def main_with_a_route(line: list[str]) -> None:
    """`arcset LINE…` whose server has one route more, GET /v1/new, and nobody said for whom."""
    from arcset.service import app

    make_app = app.make_app

    def make_app_with_a_route(*words: Any, **options: Any) -> Any:
        made = make_app(*words, **options)
        made.add_api_route("/v1/new", lambda: {})
        return made

    app.make_app = make_app_with_a_route
    main(line)


def main_that_tells_what_it_opens(line: list[str]) -> None:
    """`arcset LINE…` that writes on stderr which files Python opens to write, one to begin with."""

    def tell(event: str, words: tuple[Any, ...]) -> None:
        if event == "open" and words[2] & (os.O_WRONLY | os.O_RDWR):
            sys.stderr.write(f"opened to write: {words[0]}\n")

    sys.addaudithook(tell)
    tempfile.TemporaryFile().close()
    main(line)
