"""Every route of the service, and who may use it.

Written down a second time on purpose: a route that is added, or moved to another role, has to be
moved here as well.
"""

import os
import sys
import tempfile
from typing import Any

from arcset.cli import main

__all__ = ["PAGES", "ROLES", "codes", "main_that_tells_what_it_opens", "main_with_a_route"]

PAGES = ["GET /", "GET /page/{name}", "GET /openapi.json"]  # which the OpenAPI document leaves out
_OPEN = ["GET /", "GET /page/{name}", "GET /healthz", "GET /readyz"]
_READ = [
    "GET /metrics",
    "GET /openapi.json",
    "POST /v1/embed",
    "POST /v1/verify",
    "POST /v1/identify",
    "GET /v1/gallery",
    "GET /v1/threshold",
    "GET /v1/subjects",
    "GET /v1/subjects/{name}",
    "GET /v1/subjects/{name}/samples",
    "GET /v1/samples/{sample}/image",
    "GET /v1/views",
    "GET /v1/views/{id}",
]
_WRITE = [
    "POST /v1/subjects",
    "PATCH /v1/subjects/{name}",
    "DELETE /v1/subjects/{name}",
    "POST /v1/subjects/{name}/samples",
    "DELETE /v1/samples/{sample}",
]

#: "METHOD /template" to what it takes: open, read or write.
ROLES = {
    **dict.fromkeys(_OPEN, "open"),
    **dict.fromkeys(_READ, "read"),
    **dict.fromkeys(_WRITE, "write"),
}


def codes() -> set[str]:
    """Every code of an error that an answer may have: no document of the service lists them."""
    from arcset.service.errors import STATUS

    return set(STATUS)


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
