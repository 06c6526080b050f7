"""Embed, verify, identify."""

from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Request, Response

from arcset.recognition.decisions import decide
from arcset.service.answers import answer, match_json
from arcset.service.asking import check_far
from arcset.service.documents import described
from arcset.service.errors import RefusalError
from arcset.service.service import Ask, Service
from arcset.service.uploads import Upload, number, query_of, read_upload, service_of, text_of, whole

__all__ = ["router"]

router = APIRouter()

_MOST_CANDIDATES = 100


@router.post("/v1/embed", **described("embed"))
async def embed(request: Request) -> Response:
    """Embeddings of images: unit vectors, whose inner products are cosines."""
    service = service_of(request)
    query_of(request)
    upload = await read_upload(request, ("image", "images"))
    images = upload.images(service.settings.max_images)
    rows = await service.embed([image.content for image in images], request.scope)
    recognizer = service.recognizer
    return answer(
        {
            "model": recognizer.name,
            "digest": recognizer.digest,
            "dim": recognizer.dim,
            "embeddings": _numbers(rows),
        }
    )


@router.post("/v1/verify", **described("verify"))
async def verify(request: Request) -> Response:
    """Whether two images show the same, or one image an enrolled subject."""
    service = service_of(request)
    upload = await read_upload(request, ("a", "b", "image", "subject", "far", "threshold"))
    asked = _asked(request, upload, "far", "threshold")
    far, threshold = number(asked.get("far"), "far"), number(asked.get("threshold"), "threshold")
    await service.run(check_far, service.gallery, far, threshold)
    if "subject" in upload.fields:
        if "a" in upload.files or "b" in upload.files:
            raise RefusalError(
                "bad_request", "With `subject` goes one image, in the field `image`."
            )
        name = text_of(upload.fields["subject"], "subject")
        if not await service.run(service.gallery.__contains__, name):
            raise RefusalError("no_such_subject", "Nobody of this name is enrolled.")
        (row,) = await service.embed([upload.single("image").content], request.scope)
        return answer(await service.run(_of_subject, service, name, row, far, threshold))
    if "image" in upload.files:
        raise RefusalError("bad_request", "Two images are sent as `a` and `b`.")
    a, b = upload.single("a").content, upload.single("b").content
    first, second = await service.embed([a, b], request.scope)
    found = decide(float(first @ second), service.gallery.thresholds, far=far, threshold=threshold)
    return answer(found.json())


def _of_subject(
    service: Service,
    name: str,
    row: npt.NDArray[np.float32],
    far: float | None,
    threshold: float | None,
) -> dict[str, Any]:
    with service.writing:
        if name not in service.gallery:
            raise RefusalError("no_such_subject", "Nobody of this name is enrolled.")
        return service.gallery.verify(name, embedding=row, far=far, threshold=threshold).json()


@router.post("/v1/identify", **described("identify"))
async def identify(request: Request) -> Response:
    """Who each image shows, or that nobody known is shown."""
    service = service_of(request)
    wanted = ("fpir", "threshold", "candidates")
    upload = await read_upload(request, ("image", "images", *wanted))
    asked = _asked(request, upload, *wanted)
    ask = Ask(
        number(asked.get("fpir"), "fpir"),
        number(asked.get("threshold"), "threshold"),
        whole(asked.get("candidates"), "candidates", 1, _MOST_CANDIDATES, usual=5),
    )
    images = upload.images(service.settings.max_images)
    found = await service.identify([image.content for image in images], request.scope, ask)
    return answer(
        {
            "results": [match_json(match) for match in found.matches],
            "threshold": found.point.json(),
        }
    )


def _asked(request: Request, upload: Upload, *names: str) -> dict[str, Any]:
    """Values of the body and of the query, each in one of them."""
    query = query_of(request, *names)
    for name in query.keys() & upload.fields.keys():
        raise RefusalError("bad_request", f"`{name}` is given twice.")
    return {**upload.fields, **query}


def _numbers(rows: npt.NDArray[np.float32]) -> list[list[float]]:
    """With the nine digits that tell each float32 from all others."""
    return [[float(f"{value:.9g}") for value in row] for row in rows.tolist()]
