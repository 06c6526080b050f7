"""Subjects and their samples: list, enroll, rename, remove."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from arcset.errors import OptionError
from arcset.recognition.gallery import Gallery, Sample
from arcset.service import models
from arcset.service.auth import READ, WRITE
from arcset.service.decoding import thumbnail
from arcset.service.errors import ApiError
from arcset.service.models import NameInPath, request_body
from arcset.service.routes import SERVICE
from arcset.service.service import Service, no_such_subject
from arcset.service.uploads import last_part, read_body

__all__: list[str] = []

SampleId = Annotated[int, Path(ge=1, le=2**63 - 1)]


@READ.get("/v1/subjects", response_model=models.Subjects, operation_id="list_subjects")
async def list_subjects(service: SERVICE, query: Annotated[models.Page, Query()]) -> Response:
    """Subjects, the first enrolled first, a page at a time."""
    return (await service.run(_page, service, query)).response()


def _page(service: Service, query: models.Page) -> models.Subjects:
    part = query.search.casefold()
    found = [one for one in service.subjects.read() if part in one.name.casefold()]
    start = 0
    if query.after is not None:
        names = [one.name for one in found]
        if query.after not in names:
            message = "The subject named by `after` is not in this list."
            raise ApiError("no_such_subject", message)
        start = names.index(query.after) + 1
    page = found[start : start + query.limit]
    entries = [
        models.SubjectEntry(**vars(one), image=_image_of(service.gallery, one.name)) for one in page
    ]
    more = start + query.limit < len(found)
    return models.Subjects(subjects=entries, next=page[-1].name if more else None, total=len(found))


def _image_of(gallery: Gallery, name: str) -> int | None:
    """A sample of the subject whose image was kept."""
    if not gallery.can_hold_images:
        return None
    try:
        samples = gallery.samples(name)
    except OptionError:  # removed just now
        return None
    return next((one.id for one in samples if one.has_image), None)


@WRITE.post(
    "/v1/subjects",
    status_code=201,
    response_model=models.EnrolledPhotos | models.Enrolled,
    operation_id="enroll",
    **request_body(models.EnrollRequest),
)
async def enroll(request: Request, service: SERVICE) -> Response:
    """Enroll somebody new, with one image or several; done when it is on the disk."""
    body = await read_body(request, models.EnrollRequest)
    if await service.run(service.is_enrolled, body.name):  # before any work
        raise _already_enrolled()
    return await _enroll(request, service, body.name, body.all_images, is_new=True)


@READ.get("/v1/subjects/{name}", response_model=models.SubjectEntry, operation_id="show_subject")
async def show_subject(service: SERVICE, name: NameInPath) -> Response:
    """One subject."""
    samples = await service.run(_samples_of, service.gallery, name)
    return models.SubjectEntry(
        name=name,
        samples=len(samples),
        added=min(one.added for one in samples),
        image=next((one.id for one in samples if one.has_image), None),
    ).response()


@WRITE.patch(
    "/v1/subjects/{name}",
    response_model=models.Renamed,
    operation_id="rename",
    **request_body(models.RenameRequest),
)
async def rename(request: Request, service: SERVICE, name: NameInPath) -> Response:
    """Give a subject another name, which nobody has."""
    body = await read_body(request, models.RenameRequest)
    await service.run(_rename, service, name, body.name)
    return models.Renamed(name=body.name).response()


def _rename(service: Service, old: str, new: str) -> None:
    with service.changing():
        if old not in service.gallery:
            raise no_such_subject()
        if old != new and new in service.gallery:
            raise _already_enrolled()
        service.gallery.rename(old, new)


@WRITE.delete("/v1/subjects/{name}", response_model=models.Removed, operation_id="remove")
async def remove(service: SERVICE, name: NameInPath) -> Response:
    """Remove a subject: name, embeddings and images are erased."""
    return models.Removed(removed=await service.run(_remove, service, name)).response()


def _remove(service: Service, name: str) -> int:
    with service.changing():
        if name not in service.gallery:
            raise no_such_subject()
        return service.gallery.remove(name)


# Samples


@READ.get("/v1/subjects/{name}/samples", response_model=models.Samples, operation_id="list_samples")
async def list_samples(service: SERVICE, name: NameInPath) -> Response:
    """The samples of a subject."""
    samples = [
        models.SampleEntry(
            id=one.id,
            source=None if one.source is None else last_part(one.source),
            added=one.added,
            has_image=one.has_image,
        )
        for one in await service.run(_samples_of, service.gallery, name)
    ]
    return models.Samples(samples=samples).response()


def _samples_of(gallery: Gallery, name: str) -> tuple[Sample, ...]:
    try:
        return gallery.samples(name)
    except OptionError:
        raise no_such_subject() from None


@WRITE.post(
    "/v1/subjects/{name}/samples",
    status_code=201,
    response_model=models.EnrolledPhotos | models.Enrolled,
    operation_id="add_samples",
    **request_body(models.ImagesRequest),
)
async def add_samples(request: Request, service: SERVICE, name: NameInPath) -> Response:
    """Add images to a subject that is enrolled."""
    body = await read_body(request, models.ImagesRequest)
    if not await service.run(service.is_enrolled, name):
        raise no_such_subject()
    return await _enroll(request, service, name, body.all_images, is_new=False)


async def _enroll(
    request: Request, service: Service, name: str, images: Sequence[models.Image], *, is_new: bool
) -> Response:
    contents = [image.content for image in images]
    embedded = await service.embed(contents, request.scope)
    rows = [row for one in embedded for row in one.embeddings]

    def write() -> dict[str, Any]:
        with service.changing():
            if is_new == (name in service.gallery):
                raise _already_enrolled() if is_new else no_such_subject()
            sources = [image.name for image in images]
            made = service.gallery.enroll(name, contents, embeddings=rows, sources=sources)
            samples = len(service.gallery.samples(name))
        return {"name": name, "samples": samples, "sample_ids": made}

    enrolled = await service.run(write)
    if not service.decoder.finds_faces:
        return models.Enrolled(**enrolled).response(201)
    faces = [models.TakenFace(box=one.faces[0].box, count=one.count or 1) for one in embedded]
    return models.EnrolledPhotos(**enrolled, faces=faces).response(201)


@WRITE.delete("/v1/samples/{sample}", response_model=models.Removed, operation_id="remove_sample")
async def remove_sample(service: SERVICE, sample: SampleId) -> Response:
    """Remove one sample; with the last one of a subject goes the subject."""
    await service.run(_remove_sample, service, sample)
    return models.Removed(removed=1).response()


def _remove_sample(service: Service, sample: int) -> None:
    with service.changing():
        _image(service.gallery, sample)  # or it is not there
        service.gallery.remove_sample(sample)


@READ.get(
    "/v1/samples/{sample}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
    operation_id="sample_image",
)
async def sample_image(
    service: SERVICE, sample: SampleId, query: Annotated[models.Size, Query()]
) -> Response:
    """A small copy of a kept image, with nothing but its pixels."""
    content, kind = await service.run(_small_image, service.gallery, sample, query.size)
    return Response(content, media_type=kind)


def _small_image(gallery: Gallery, sample: int, size: int) -> tuple[bytes, str]:
    content = _image(gallery, sample)
    if content is None:
        raise ApiError("no_image_kept", "The image of this sample was not kept.")
    return thumbnail(content, size)


def _image(gallery: Gallery, sample: int) -> bytes | None:
    try:
        return gallery.image(sample)
    except OptionError:
        raise ApiError("no_such_sample", "There is no sample of this number.") from None


def _already_enrolled() -> ApiError:
    return ApiError("already_exists", "Somebody of this name is enrolled already.")
