"""Subjects and their samples: list, enroll, rename, remove."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool as in_thread

from arcset.errors import OptionError
from arcset.recognition.gallery import Gallery, Sample, Subject
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


@READ.get("/v1/subjects", response_model=models.Subjects)
def list_subjects(service: SERVICE, query: Annotated[models.Page, Query()]) -> Response:
    """Subjects, the first enrolled first, a page at a time."""
    text, start = query.search.casefold(), 0
    matching = [one for one in service.subjects.read() if text in one.name.casefold()]
    if query.after is not None:
        start = next((k for k, one in enumerate(matching, 1) if one.name == query.after), 0)
        if not start:
            message = "The subject named by `after` is not in this list."
            raise ApiError("no_such_subject", message)
    page = matching[start : start + query.limit]
    entries = [_entry(service.gallery, one) for one in page]
    after = page[-1].name if start + query.limit < len(matching) else None
    return models.Subjects(subjects=entries, next=after, total=len(matching)).response()


def _entry(gallery: Gallery, subject: Subject) -> models.SubjectEntry:
    try:
        samples = gallery.samples(subject.name) if gallery.can_hold_images else ()
    except OptionError:  # removed just now
        samples = ()
    image = next((one.id for one in samples if one.has_image), None)
    return models.SubjectEntry(**vars(subject), image=image)


@WRITE.post(
    "/v1/subjects",
    status_code=201,
    response_model=models.EnrolledPhotos | models.Enrolled,
    **request_body(models.EnrollRequest),
)
async def enroll(request: Request, service: SERVICE) -> Response:
    """Enroll a new subject with one or more images; they are on the disk when this returns."""
    body = await read_body(request, models.EnrollRequest)
    if await in_thread(service.is_enrolled, body.name):  # before any work
        raise _already_enrolled()
    return await _enroll(request, service, body.name, body.all_images, is_new=True)


@READ.get("/v1/subjects/{name}", response_model=models.SubjectEntry)
def show_subject(service: SERVICE, name: NameInPath) -> Response:
    """One subject."""
    samples = _samples_of(service.gallery, name)
    subject = Subject(name, len(samples), min(one.added for one in samples))
    return _entry(service.gallery, subject).response()


@WRITE.patch(
    "/v1/subjects/{name}",
    response_model=models.Renamed,
    **request_body(models.RenameRequest),
)
async def rename(request: Request, service: SERVICE, name: NameInPath) -> Response:
    """Give a subject another name, one that is not taken."""
    body = await read_body(request, models.RenameRequest)
    await in_thread(_rename, service, name, body.name)
    return models.Renamed(name=body.name).response()


def _rename(service: Service, old: str, new: str) -> None:
    with service.changing() as gallery:
        if old not in gallery:
            raise no_such_subject()
        if old != new and new in gallery:
            raise _already_enrolled()
        gallery.rename(old, new)


@WRITE.delete("/v1/subjects/{name}", response_model=models.Removed)
def remove(service: SERVICE, name: NameInPath) -> Response:
    """Remove a subject: name, embeddings and images are erased."""
    with service.changing() as gallery:
        if name not in gallery:
            raise no_such_subject()
        return models.Removed(removed=gallery.remove(name)).response()


# Samples


@READ.get("/v1/subjects/{name}/samples", response_model=models.Samples)
def list_samples(service: SERVICE, name: NameInPath) -> Response:
    """The samples of a subject."""
    samples = [
        models.SampleEntry(
            id=one.id,
            source=None if one.source is None else last_part(one.source),
            added=one.added,
            has_image=one.has_image,
        )
        for one in _samples_of(service.gallery, name)
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
    **request_body(models.ImagesRequest),
)
async def add_samples(request: Request, service: SERVICE, name: NameInPath) -> Response:
    """Add images to a subject that is enrolled."""
    body = await read_body(request, models.ImagesRequest)
    if not await in_thread(service.is_enrolled, name):
        raise no_such_subject()
    return await _enroll(request, service, name, body.all_images, is_new=False)


async def _enroll(
    request: Request, service: Service, name: str, images: Sequence[models.Image], *, is_new: bool
) -> Response:
    contents, sources = [one.content for one in images], [one.name for one in images]
    rows, photos = await service.embed(contents, request.scope)

    def write() -> models.Enrolled:
        with service.changing() as gallery:
            if is_new == (name in gallery):
                raise _already_enrolled() if is_new else no_such_subject()
            made = gallery.enroll(name, contents, embeddings=rows, sources=sources)
            count = len(gallery.samples(name))
        return models.Enrolled(name=name, samples=count, sample_ids=made)

    enrolled = await in_thread(write)
    if service.decoder.finds_faces:
        faces = [
            models.TakenFace(box=one.faces[0].box, count=one.face_count or 1) for one in photos
        ]
        enrolled = models.EnrolledPhotos(**vars(enrolled), faces=faces)
    return enrolled.response(201)


@WRITE.delete("/v1/samples/{sample}", response_model=models.Removed)
def remove_sample(service: SERVICE, sample: SampleId) -> Response:
    """Remove one sample; a subject goes with its last sample."""
    with service.changing() as gallery:
        _image(gallery, sample)  # or it is not there
        gallery.remove_sample(sample)
    return models.Removed(removed=1).response()


@READ.get(
    "/v1/samples/{sample}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
)
async def sample_image(
    service: SERVICE, sample: SampleId, query: Annotated[models.Size, Query()]
) -> Response:
    """A small copy of a kept image, with nothing but its pixels."""
    content = await in_thread(_image, service.gallery, sample)
    if content is None:
        raise ApiError("no_image_kept", "The image of this sample was not kept.")
    loop = asyncio.get_running_loop()
    content, kind = await loop.run_in_executor(service.drawing, thumbnail, content, query.size)
    return Response(content, media_type=kind)


def _image(gallery: Gallery, sample: int) -> bytes | None:
    try:
        return gallery.image(sample)
    except OptionError:
        raise ApiError("no_such_sample", "There is no sample with this number.") from None


def _already_enrolled() -> ApiError:
    return ApiError("already_exists", "A subject of this name is already enrolled.")
