"""The client itself: one method for each thing that the service does."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcset.client.connection import Connection, ServiceError
from arcset.client.forms import Field, File, files, path_of, portions, single
from arcset.errors import OptionError
from arcset.recognition.decisions import Candidate, Match, Verification, WorkingPoint
from arcset.recognition.gallery.samples import Sample, Subject

__all__ = ["Client"]

_PAGE = 200  # subjects asked for at a time
_ABOUT_ONE_IMAGE = ("not_an_image", "image_too_large", "no_face")


class Client:
    """A connection to a served gallery.

    Parameters:
        url: where it is; a path in it is kept, for a service below one.
        key: an API key, as `arcset keys add` prints it; None where the server has none.
        timeout: seconds to wait for the server each time.

    Images are paths, the bytes of files, PIL images or uint8 arrays, as everywhere in arcset. They
    are read here and sent; the server never opens a path or an address. One connection is kept
    open, and opened anew where the server closed it in between. Threads may share a client, their
    requests go one after the other. Close it, or use it in a `with` statement.

    All methods raise `ServiceError` where the service refuses or cannot be reached. What changes
    something is sent once: after `timeout` or `disconnected` it may or may not have happened.
    Raises `OptionError` for what is no http address.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8321", key: str | None = None, timeout: float = 30.0
    ) -> None:
        self._connection = Connection(url, key, timeout)
        self._ask = self._connection.ask

    def __repr__(self) -> str:
        return f"<Client of {self._connection.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request would open another."""
        self._connection.close()

    # Questions

    def gallery(self) -> dict[str, Any]:
        """What is served: model, dim, subjects, samples, scoring, your role, limits and more."""
        return dict(self._ask("GET", "/v1/gallery"))

    def embed(self, images: Any) -> npt.NDArray[np.float32]:
        """Embeddings of one image or many: (N, D), unit rows."""
        rows: list[Any] = []
        for some in portions(images):
            rows += self._ask("POST", "/v1/embed", form=[("image", one) for one in some])[
                "embeddings"
            ]
        return np.asarray(rows, np.float32)

    def verify(
        self,
        a: Any,
        b: Any = None,
        *,
        subject: str | None = None,
        far: float | None = None,
        threshold: float | None = None,
    ) -> Verification:
        """Whether two images show the same identity, or one shows the subject of this name.

        far: the rate of false "same" among different pairs that the threshold is for, by default
            0.001 or the lowest supported; threshold: a cosine instead.
        """
        if (b is None) == (subject is None):
            raise OptionError("name two images, or one image and a subject")
        form: list[Field] = [("far", far), ("threshold", threshold), ("subject", subject)]
        first = single(a)
        form += [("image", first)] if b is None else [("a", first), ("b", single(b))]
        found = self._ask("POST", "/v1/verify", form=form)
        return Verification(**{name: found[name] for name in Verification.__dataclass_fields__})

    def identify(
        self,
        image: Any,
        *,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> Match:
        """Who an image shows, or that nobody known is shown: see `identify_many`."""
        found = self._identified([single(image)], fpir, threshold, candidates)[0]
        if isinstance(found, ServiceError):
            raise found
        return found

    def identify_many(
        self,
        images: Any,
        *,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> list[Match | ServiceError]:
        """Who each of many images shows; in the place of one that cannot be read, the error.

        fpir: the share of unknown probes that may be taken for someone, by default 0.01, at the
            gallery's present size. threshold: a cosine instead. candidates: how many are listed.
        """
        found: list[Match | ServiceError] = []
        for some in portions(images):
            try:
                found += self._identified(some, fpir, threshold, candidates)
            except ServiceError as error:
                if len(some) > 1 or error.code not in _ABOUT_ONE_IMAGE:
                    raise
                found.append(error)  # one image alone is refused as a whole
        return found

    def _identified(
        self,
        images: Sequence[File],
        fpir: float | None,
        threshold: float | None,
        candidates: int,
    ) -> list[Match | ServiceError]:
        form: list[Field] = [("fpir", fpir), ("threshold", threshold), ("candidates", candidates)]
        form += [("image", one) for one in images]
        return [_match(one) for one in self._ask("POST", "/v1/identify", form=form)["results"]]

    def threshold(self, fpir: float | None = None) -> WorkingPoint:
        """Where "known" begins at the gallery's present size, for an FPIR, by default 0.01."""
        found = self._ask("GET", "/v1/threshold", {"fpir": fpir})
        if found["working_point"] is None:
            raise ServiceError(found["code"], found["why"], status=200)
        return WorkingPoint(**found["working_point"])

    # Who is enrolled

    def subjects(self, search: str = "") -> Iterator[Subject]:
        """All subjects, first enrolled first, asked for page by page as they are used.

        search: only those with this in their name, in capital or small letters.
        """
        after = None
        while True:
            query = {"limit": _PAGE, "after": after, "search": search or None}
            page = self._ask("GET", "/v1/subjects", query)
            yield from (_subject(one) for one in page["subjects"])
            if (after := page["next"]) is None:
                return

    def subject(self, name: str) -> Subject:
        """One of them."""
        return _subject(self._ask("GET", path_of("subjects", name)))

    def samples(self, name: str) -> tuple[Sample, ...]:
        """What the gallery holds of a subject; their digests are not told."""
        found = self._ask("GET", path_of("subjects", name, "samples"))["samples"]
        return tuple(
            Sample(one["id"], one["source"], None, _moment(one["added"]), one["has_image"])
            for one in found
        )

    def image(self, sample: int, size: int | None = None) -> bytes | None:
        """A small picture of a sample, as the bytes of an image file; None where none is kept."""
        try:
            return self._connection.fetch(
                "GET", path_of("samples", str(sample), "image"), {"size": size}
            )
        except ServiceError as error:
            if error.code == "no_image_kept":
                return None
            raise

    # Changes, for keys of the role `write`

    def enroll(self, name: str, images: Any) -> tuple[int, ...]:
        """Enroll a new subject, or further samples of one; on the disk when it returns.

        Returns the numbers of the samples. All images are enrolled, or none.
        """
        sent: list[Field] = [("image", one) for one in files(images)]
        try:
            found = self._ask("POST", "/v1/subjects", form=[("name", name), *sent])
        except ServiceError as error:
            if error.code != "already_exists":
                raise
            found = self._ask("POST", path_of("subjects", name, "samples"), form=sent)
        return tuple(found["sample_ids"])

    def rename(self, old: str, new: str) -> None:
        """Give a subject another name; one that is taken is refused."""
        self._ask("PATCH", path_of("subjects", old), content={"name": new})

    def remove(self, name: str) -> int:
        """Remove a subject with all its samples; how many these were."""
        return int(self._ask("DELETE", path_of("subjects", name))["removed"])

    def remove_sample(self, sample: int) -> None:
        """Remove one sample; a subject without samples goes with its last."""
        self._ask("DELETE", path_of("samples", str(sample)))


def _match(told: dict[str, Any]) -> Match | ServiceError:
    if "error" in told:
        return ServiceError(told["error"]["code"], told["error"]["message"])
    cosine = told["cosine"]
    return Match(
        subject=told["subject"],
        cosine=math.nan if cosine is None else cosine,
        probability=told["probability"],
        threshold=told["threshold"],
        candidates=tuple(
            Candidate(one["subject"], one["cosine"], one["probability"])
            for one in told["candidates"]
        ),
        fpir=told["fpir"],
        reason=told["reason"],
        rough=told["rough"],
    )


def _subject(told: dict[str, Any]) -> Subject:
    return Subject(told["name"], told["samples"], _moment(told["added"]))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
