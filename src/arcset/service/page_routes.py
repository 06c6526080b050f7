"""The page: hand-written files that a browser takes as they are.

The page itself holds no data and needs no key; what it shows it asks the API for, with the key
that its visitor gave.
"""

import hashlib
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from arcset.service.errors import RefusalError

__all__ = ["page_files", "router"]

router = APIRouter(include_in_schema=False)

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def page_files() -> dict[str, bytes]:
    """All files of the page and of its viewer by name; nothing else of the disk is served."""
    package = files("arcset")
    return {
        file.name: file.read_bytes()
        for folder in (package / "service" / "page", package / "reports" / "viewer")
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in KINDS
    }


_FILES = page_files()


@router.get("/")
async def index(request: Request) -> Response:
    """The page."""
    return _answer(request, "index.html")


@router.get("/page/{name}")
async def part(request: Request, name: str) -> Response:
    """A style sheet, a script or the icon of the page."""
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    content = _FILES.get(name)
    if content is None:
        raise RefusalError("not_found", "The page has no such part.")
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    # Asked for again each time, and sent only if it changed: a new version is seen at once.
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=KINDS[name.rpartition(".")[2]], headers=headers)
