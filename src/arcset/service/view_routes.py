"""Trained runs to look at: which there are, their points over the epochs, and their images."""

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request, Response

from arcset.errors import ArcsetError
from arcset.service.errors import RefusalError
from arcset.service.views import Made, Views

__all__ = ["router"]

router = APIRouter(prefix="/v1/views", tags=["views"])


@router.get("", summary="The runs that can be looked at")
async def list_views(request: Request) -> Response:
    """Each with its id, title, loss, dim, kept epochs, and whether it can be pictured."""
    views = _views(request)
    runs: list[dict[str, Any]] = []
    if views is not None:
        runs = await asyncio.to_thread(views.listing)
    body = json.dumps({"runs": runs}, ensure_ascii=False).encode()
    return Response(body, media_type="application/json")


@router.get("/{id}", summary="The points of a run, epoch by epoch")
async def get_view(request: Request, id: str) -> Response:
    """Classes, labels and parts of the samples, and for every kept epoch where they lie."""
    made = await _made(request, id)
    return Response(made.content, media_type="application/json")


@router.get("/{id}/sprite.png", summary="The images of a run's points, on one sheet")
async def get_sprite(request: Request, id: str) -> Response:
    """In square tiles, row by row, in the order of the points."""
    made = await _made(request, id)
    return Response(made.sprite, media_type="image/png")


def _views(request: Request) -> Views | None:
    views: Views | None = request.app.state.service.views
    return views


async def _made(request: Request, id: str) -> Made:
    views = _views(request)
    made = None
    if views is not None:
        try:
            # Seconds at the first time: not in a thread that the gallery's answers wait for.
            made = await asyncio.to_thread(views.get, id)
        except ArcsetError:
            raise RefusalError(
                "not_found", "This run, or its data, cannot be read any more."
            ) from None
    if made is None:
        raise RefusalError("not_found", "There is no such run, or none that can be pictured.")
    found: Made = made
    return found
