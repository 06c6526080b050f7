"""Trained runs to look at: which there are, their points over the epochs, and their images."""

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request, Response

from arcset.errors import ArcsetError
from arcset.service.errors import RefusalError
from arcset.service.views import Views

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
    """What the page's viewer draws: classes, points, angles, and the samples' images."""
    views = _views(request)
    content = None
    if views is not None:
        try:
            # Seconds at the first time: not in a thread that the gallery's answers wait for.
            content = await asyncio.to_thread(views.get, id)
        except ArcsetError:
            raise RefusalError(
                "not_found", "This run, or its data, cannot be read any more."
            ) from None
    if content is None:
        raise RefusalError("not_found", "There is no such run, or it kept no epochs to look at.")
    return Response(content, media_type="application/json")


def _views(request: Request) -> Views | None:
    views: Views | None = request.app.state.service.views
    return views
