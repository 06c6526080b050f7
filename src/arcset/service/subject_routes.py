"""Subjects and their samples: list, enroll, rename, remove."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from arcset.errors import OptionError
from arcset.recognition.gallery import Gallery, Sample, Subject
from arcset.recognition.gallery.samples import check_name
from arcset.service.answers import answer, decoded
from arcset.service.decoding import thumbnail
from arcset.service.documents import described
from arcset.service.errors import RefusalError
from arcset.service.service import Service
from arcset.service.uploads import (
    Image,
    last_part,
    query_of,
    read_object,
    read_upload,
    service_of,
    text_of,
    whole,
)
from arcset.text import sentence

__all__ = ["router"]

router = APIRouter()

_PAGE, _MOST_PAGE = 50, 1000
_THUMBNAIL, _LARGEST_ID = 256, 2**63 - 1


@router.get("/v1/subjects", **described("list_subjects"))
async def list_subjects(request: Request) -> Response:
    """Subjects, the first enrolled first, a page at a time."""
    service, query = service_of(request), query_of(request, "limit", "after", "search")
    limit = whole(query.get("limit"), "limit", 1, _MOST_PAGE, usual=_PAGE)
    found = await service.run(_page, service, limit, query.get("after"), query.get("search", ""))
    return answer(found)


@router.post("/v1/subjects", status_code=201, **described("enroll"))
async def enroll(request: Request) -> Response:
    """Enroll somebody new, with one image or several; done when it is on the disk."""
    service = service_of(request)
    upload = await read_upload(request, ("name", "image", "images"))
    name = _checked(text_of(upload.fields.get("name"), "name"))
    images = upload.images(service.settings.max_images)
    return answer(await _enrolled(request, name, images, new=True), 201)


@router.get("/v1/subjects/{name}", **described("show_subject"))
async def show_subject(request: Request, name: str) -> Response:
    """One subject."""
    service = service_of(request)
    return answer(await service.run(_shown, service.gallery, decoded(name)))


@router.patch("/v1/subjects/{name}", **described("rename"))
async def rename(request: Request, name: str) -> Response:
    """Give a subject another name, which nobody has."""
    service = service_of(request)
    content = await read_object(request)
    if set(content) != {"name"}:
        raise RefusalError("bad_request", "The body is a JSON object with the new `name`.")
    new = _checked(text_of(content["name"], "name"))
    return answer(await service.run(_renamed, service, decoded(name), new))


@router.delete("/v1/subjects/{name}", **described("remove"))
async def remove(request: Request, name: str) -> Response:
    """Remove a subject: name, embeddings and images are overwritten."""
    service = service_of(request)
    return answer({"removed": await service.run(_removed, service, decoded(name))})


@router.get("/v1/subjects/{name}/samples", **described("list_samples"))
async def list_samples(request: Request, name: str) -> Response:
    """The samples of a subject."""
    service = service_of(request)
    return answer(await service.run(_samples, service.gallery, decoded(name)))


@router.post("/v1/subjects/{name}/samples", status_code=201, **described("add_samples"))
async def add_samples(request: Request, name: str) -> Response:
    """Add images to a subject that is enrolled."""
    service = service_of(request)
    upload = await read_upload(request, ("image", "images"))
    called = decoded(name)
    if not await service.run(service.gallery.__contains__, called):
        raise _nobody()
    images = upload.images(service.settings.max_images)
    return answer(await _enrolled(request, called, images, new=False), 201)


@router.delete("/v1/samples/{sample}", **described("remove_sample"))
async def remove_sample(request: Request, sample: str) -> Response:
    """Remove one sample; with the last one of a subject goes the subject."""
    service = service_of(request)
    await service.run(_sample_removed, service, _number(sample))
    return answer({"removed": 1})


@router.get("/v1/samples/{sample}/image", **described("sample_image"))
async def sample_image(request: Request, sample: str) -> Response:
    """A small copy of a kept image, with nothing but its pixels."""
    service = service_of(request)
    size = whole(query_of(request, "size").get("size"), "size", 16, _THUMBNAIL, usual=_THUMBNAIL)
    content, kind = await service.run(_small, service.gallery, _number(sample), size)
    return Response(content, media_type=kind)


async def _enrolled(
    request: Request, name: str, images: Sequence[Image], *, new: bool
) -> dict[str, Any]:
    service = service_of(request)
    if new and await service.run(service.gallery.__contains__, name):  # before any work
        raise _taken()
    contents = [image.content for image in images]
    rows = await service.embed(contents, request.scope)
    sources = [image.name for image in images]

    def write() -> dict[str, Any]:
        with service.changing():
            if new == (name in service.gallery):
                raise _taken() if new else _nobody()
            made = service.gallery.enroll(name, contents, embeddings=rows, sources=sources)
            samples = len(service.gallery.samples(name))
        return {"name": name, "samples": samples, "sample_ids": made}

    return await service.run(write)


def _page(service: Service, limit: int, after: str | None, search: str) -> dict[str, Any]:
    gallery = service.gallery
    found: Sequence[Subject] = service.followed.of("subjects", gallery.subjects)
    if search:
        part = search.casefold()
        found = [one for one in found if part in one.name.casefold()]
    start = 0
    if after is not None:
        places = (place for place, one in enumerate(found) if one.name == after)
        start = next(places, -1) + 1
        if not start:
            raise RefusalError(
                "no_such_subject", "The subject named by `after` is not in this list."
            )
    page = found[start : start + limit]
    more = start + limit < len(found)
    return {
        "subjects": [_subject(gallery, one) for one in page],
        "next": page[-1].name if more else None,
        "total": len(found),
    }


def _subject(gallery: Gallery, subject: Subject) -> dict[str, Any]:
    return {**subject.json(), "image": _kept(gallery, subject.name)}


def _kept(gallery: Gallery, name: str) -> int | None:
    """A sample of the subject whose image was kept."""
    if not gallery.can_hold_images:
        return None
    try:
        samples = gallery.samples(name)
    except OptionError:  # removed just now
        return None
    return next((one.id for one in samples if one.has_image), None)


def _shown(gallery: Gallery, name: str) -> dict[str, Any]:
    samples = _samples_of(gallery, name)
    return {
        "name": name,
        "samples": len(samples),
        "added": min(one.added for one in samples).isoformat(),
        "image": next((one.id for one in samples if one.has_image), None),
    }


def _samples_of(gallery: Gallery, name: str) -> tuple[Sample, ...]:
    try:
        return gallery.samples(name)
    except OptionError:
        raise _nobody() from None


def _samples(gallery: Gallery, name: str) -> dict[str, Any]:
    return {
        "samples": [
            {
                "id": one.id,
                "source": None if one.source is None else last_part(one.source),
                "added": one.added.isoformat(),
                "has_image": one.has_image,
            }
            for one in _samples_of(gallery, name)
        ]
    }


def _renamed(service: Service, old: str, new: str) -> dict[str, Any]:
    with service.changing():
        if old not in service.gallery:
            raise _nobody()
        if old != new and new in service.gallery:
            raise _taken()
        service.gallery.rename(old, new)
    return {"name": new}


def _removed(service: Service, name: str) -> int:
    with service.changing():
        if name not in service.gallery:
            raise _nobody()
        return service.gallery.remove(name)


def _sample_removed(service: Service, sample: int) -> None:
    with service.changing():
        _image(service.gallery, sample)  # or it is not there
        service.gallery.remove_sample(sample)


def _small(gallery: Gallery, sample: int, size: int) -> tuple[bytes, str]:
    content = _image(gallery, sample)
    if content is None:
        raise RefusalError("no_image_kept", "The image of this sample was not kept.")
    return thumbnail(content, size)


def _image(gallery: Gallery, sample: int) -> bytes | None:
    try:
        return gallery.image(sample)
    except OptionError:
        raise RefusalError("no_such_sample", "There is no sample of this number.") from None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _LARGEST_ID):
        raise RefusalError("no_such_sample", "There is no sample of this number.")
    return int(text)


def _checked(name: str) -> str:
    try:
        return check_name(name)
    except OptionError as error:
        raise RefusalError("bad_request", sentence(error)) from None


def _nobody() -> RefusalError:
    return RefusalError("no_such_subject", "Nobody of this name is enrolled.")


def _taken() -> RefusalError:
    return RefusalError("already_exists", "Somebody of this name is enrolled already.")
