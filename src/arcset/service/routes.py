"""Embed, verify, identify; how the service is; runs to look at; and the page itself."""

import hashlib
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool as in_thread

from arcset import __version__
from arcset.errors import ArcsetError
from arcset.recognition import decisions
from arcset.recognition.decisions import DEFAULT_FPIR
from arcset.recognition.operating_curves import operating_curves
from arcset.service import models
from arcset.service.auth import OPEN, READ
from arcset.service.errors import ApiError
from arcset.service.metrics import CONTENT_TYPE
from arcset.service.models import NameInPath, request_body
from arcset.service.service import UNCALIBRATED, Ask, Service, no_such_subject
from arcset.service.uploads import read_body
from arcset.text import sentence


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


#: Hands a route what all routes share.
SERVICE = Annotated[Service, Depends(_service)]


# Recognition


@READ.post("/v1/embed", response_model=models.Embeddings, **request_body(models.ImagesRequest))
async def embed(request: Request, service: SERVICE) -> Response:
    """Embeddings of images: unit vectors, whose inner products are cosines."""
    body = await read_body(request, models.ImagesRequest)
    rows, _ = await service.embed([image.content for image in body.all_images], request.scope)
    recognizer = service.recognizer
    return models.Embeddings(
        model=recognizer.name,
        digest=recognizer.digest,
        dim=recognizer.dim,
        # With the nine digits that tell each float32 from all others.
        embeddings=[[float(f"{value:.9g}") for value in row] for row in rows.tolist()],
    ).response()


@READ.post("/v1/verify", response_model=models.Verification, **request_body(models.VerifyRequest))
async def verify(
    request: Request, service: SERVICE, query: Annotated[models.VerifyOptions, Query()]
) -> Response:
    """Whether two images show the same identity, or one image shows an enrolled subject."""
    body = await read_body(request, models.VerifyRequest, query)
    images = [image.content for image in (body.a, body.b, body.image) if image is not None]
    rows, _ = await service.embed(images, request.scope)
    verification = await in_thread(_decide, service, body, rows)
    return models.Verification(**verification.json()).response()


def _decide(service: Service, body: models.VerifyRequest, rows: Any) -> decisions.Verification:
    gallery, far, threshold = service.gallery, body.far, body.threshold
    if far is not None:
        service.check_calibrated()
    if body.subject is None:
        cosine, published = float(rows[0] @ rows[1]), gallery.published
        return decisions.decide(
            cosine, gallery.thresholds, far=far, threshold=threshold, published=published
        )
    with gallery.together():
        if body.subject not in gallery:
            raise no_such_subject()
        return gallery.verify(body.subject, embedding=rows[0], far=far, threshold=threshold)


@READ.post("/v1/identify", response_model=models.Identified, **request_body(models.IdentifyRequest))
async def identify(
    request: Request, service: SERVICE, query: Annotated[models.IdentifyOptions, Query()]
) -> Response:
    """Who each image shows, or that it shows no enrolled subject; in a photo, each face."""
    body = await read_body(request, models.IdentifyRequest, query)
    ask = Ask(body.fpir, body.threshold, body.candidates)
    contents = [image.content for image in body.all_images]
    answers, point = await service.identify(contents, request.scope, ask)
    results = [_result(one, service.decoder.finds_faces) for one in answers]
    note = sentence(UNCALIBRATED) if point is None else point.note
    return models.Identified(results=results, threshold=point, note=note).response()


def _result(answer: Any, has_faces: bool) -> models.Match | models.Unreadable:
    if isinstance(answer, ApiError):
        return models.Unreadable(error=models.ErrorDetail(code=answer.code, message=answer.message))
    if not has_faces:
        return models.Match.of(answer[0])
    faces = [models.FaceMatch.of(match, box=match.box) for match in answer]
    return models.PhotoMatch.of(answer[0], faces=faces)


@READ.get("/v1/threshold", response_model=models.ThresholdState)
def threshold(service: SERVICE, query: Annotated[models.ThresholdOptions, Query()]) -> Response:
    """Where "known" begins at the gallery's present size, and what other limits would do."""
    gallery = service.gallery
    point = why = code = None
    try:
        point = service.point(query.fpir)
        if point is None:
            service.check_calibrated()
    except ApiError as error:
        why, code = error.message, error.code
    return models.ThresholdState(
        working_point=point,
        why=why,
        code=code,
        fpir=query.fpir or DEFAULT_FPIR,
        subjects=len(gallery),
        samples=gallery.sample_count,
        scoring=gallery.scoring,
        curves=operating_curves(gallery),
    ).response()


# State


@OPEN.get("/healthz", response_model=models.Status)
async def health() -> Response:
    """The process is alive."""
    return models.Status(status="ok").response()


@OPEN.get("/readyz", response_model=models.Status)
def ready(service: SERVICE) -> Response:
    """The service takes requests; 503 once it was told to stop."""
    if service.stopping:
        raise ApiError("shutting_down", "The service is shutting down.", Connection="close")
    len(service.gallery)  # or the file cannot be read
    service.check_file()
    return models.Status(status="ready").response()


@READ.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: SERVICE) -> Response:
    """Metrics for Prometheus."""
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})


@READ.get("/v1/gallery", response_model=models.GalleryInfo)
def gallery(request: Request, service: SERVICE) -> Response:
    """What is served, and what the caller may do."""
    gallery, recognizer = service.gallery, service.recognizer
    return models.GalleryInfo(
        name=gallery.path.stem,
        model=recognizer.name,
        digest=recognizer.digest,
        dim=recognizer.dim,
        subjects=len(gallery),
        samples=gallery.sample_count,
        scoring=gallery.scoring,
        keep_images=gallery.keep_images,
        version=__version__,
        read_only=service.read_only,
        limits=service.settings.limits,
        role=request.scope["caller"].role,
    ).response()


@READ.get("/openapi.json", include_in_schema=False)
def document(request: Request) -> dict[str, Any]:
    """This API as an OpenAPI document."""
    content: dict[str, Any] = request.app.openapi()
    return content


# Runs


@READ.get("/v1/views", response_model=models.Runs)
def list_views(service: SERVICE) -> Response:
    """The trained runs that can be looked at."""
    runs = [] if service.views is None else service.views.entries()
    return models.Runs(runs=runs).response()


@READ.get("/v1/views/{id}", response_model=dict[str, Any])
def get_view(service: SERVICE, id: NameInPath) -> Response:
    """What the page's viewer draws of a run: classes, points, angles, and the samples' images."""
    try:
        content = service.views and service.views.read(id)  # takes seconds at the first time
    except ArcsetError:
        raise ApiError("not_found", "This run, or its data, cannot be read any more.") from None
    if content is None:
        raise ApiError("not_found", "There is no such run, or it kept no epochs to look at.")
    return Response(content, media_type="application/json")


# The page: it holds no data and needs no key; what it shows it asks for with its visitor's

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: All files of the page and of its viewer by name; nothing else of the disk is served.
_FILES = {
    file.name: file.read_bytes()
    for folder in ("service/page", "reports/viewer")
    for file in files("arcset").joinpath(folder).iterdir()
    if file.name.rpartition(".")[2] in _KINDS
}


@OPEN.get("/", include_in_schema=False)
@OPEN.get("/page/{name}", include_in_schema=False)
async def page(request: Request, name: str = "index.html") -> Response:
    """The page, or a style sheet, a script or the icon of it."""
    content = _FILES.get(name)
    if content is None:
        raise ApiError("not_found", "The page has no such file.")
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    # Asked for again each time, and sent only if it changed: a new version is seen at once.
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)
