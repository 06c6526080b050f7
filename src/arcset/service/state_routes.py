"""How the service is, and what it serves."""

from typing import Any

from fastapi import APIRouter, Request, Response

from arcset import __version__
from arcset.recognition.decisions import DEFAULT_FPIR
from arcset.recognition.operating_curves import operating_curves
from arcset.service.answers import answer
from arcset.service.documents import described
from arcset.service.errors import RefusalError
from arcset.service.metrics import CONTENT_TYPE
from arcset.service.service import Service
from arcset.service.uploads import number, query_of, service_of

__all__ = ["router"]

router = APIRouter()


@router.get("/healthz", **described("health"))
async def health(request: Request) -> Response:
    """The process runs."""
    return answer({"status": "ok"})


@router.get("/readyz", **described("ready"))
async def ready(request: Request) -> Response:
    """The service answers; not any more, once it was told to stop."""
    service = service_of(request)
    if service.stopping:
        raise RefusalError("shutting_down", "The service is about to stop.", Connection="close")
    await service.run(len, service.gallery)  # or the file cannot be read
    service.check_file()
    return answer({"status": "ready"})


@router.get("/metrics", **described("metrics"))
async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    service = service_of(request)
    return Response(await service.run(service.metrics.text), headers={"content-type": CONTENT_TYPE})


@router.get("/v1/gallery", **described("gallery"))
async def gallery(request: Request) -> Response:
    """What is served, and what the caller may do."""
    service = service_of(request)
    found = await service.run(_gallery, service)
    return answer({**found, "role": request.state.role})


@router.get("/v1/threshold", **described("threshold"))
async def threshold(request: Request) -> Response:
    """Where "known" begins at the gallery's present size, and what other limits would do."""
    service = service_of(request)
    fpir = number(query_of(request, "fpir").get("fpir"), "fpir")
    return answer(await service.run(_threshold, service, fpir))


def _gallery(service: Service) -> dict[str, Any]:
    gallery, recognizer = service.gallery, service.recognizer
    return {
        "name": gallery.path.stem,
        "model": recognizer.name,
        "digest": recognizer.digest,
        "dim": recognizer.dim,
        "subjects": len(gallery),
        "samples": gallery.sample_count,
        "scoring": gallery.scoring,
        "keep_images": gallery.keep_images,
        "version": __version__,
        "read_only": service.read_only,
        "limits": service.settings.json(),
    }


def _threshold(service: Service, fpir: float | None) -> dict[str, Any]:
    gallery, point, why, code = service.gallery, None, None, None
    try:
        point = service.point(fpir).json()
    except RefusalError as refusal:
        if refusal.code == "bad_request":
            raise
        why, code = refusal.message, refusal.code
    return {
        "working_point": point,
        "why": why,
        "code": code,
        "fpir": DEFAULT_FPIR if fpir is None else fpir,
        "subjects": len(gallery),
        "samples": gallery.sample_count,
        "scoring": gallery.scoring,
        "curves": service.followed.of("curves", lambda: operating_curves(gallery).json()),
    }
