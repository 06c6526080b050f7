"""A gallery that `arcset serve` serves, used from Python as if it lay beside the program.

    with arcset.Client("http://127.0.0.1:8321", key="arcset_…") as client:
        client.enroll("anna", ["anna-1.jpg", "anna-2.jpg"])
        match = client.identify("visitor.jpg")
        print(match.subject, match.probability)  # None: unknown

Needs httpx: `pip install 'arcset[client]'`. docs/guides/serve.md has the rest.
"""

import json
import math
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from arcset.errors import ArcsetError, InputError, OptionError
from arcset.recognition.decisions import (
    Candidate,
    Match,
    Verification,
    WorkingPoint,
    as_range,
)
from arcset.recognition.gallery.samples import Sample, Subject, original
from arcset.recognition.inputs import as_sources

if TYPE_CHECKING:
    import httpx

_PAGE = 200  # subjects asked for at a time
_PORTION_IMAGES, _PORTION_BYTES = 16, 6 << 20  # in one request, where many images are sent
_ABOUT_ONE_IMAGE = ("not_an_image", "image_too_large", "no_face")

File = tuple[str, tuple[str, bytes]]  # a field of a form, its file's name and content
Fields = Mapping[str, Any]  # of a query or a form; what is None is not sent


class ServiceError(ArcsetError):
    """The service refused, failed or cannot be reached.

    Attributes:
        code: what programs decide by, as `no_such_subject`. The client's own are `unreachable`,
            `timeout`, `disconnected` and `bad_answer`; docs/guides/serve.md lists the service's.
        status: of HTTP; None where there was no answer.
        request_id: by which the service's log knows it; None where it did not say.
        retry_after: seconds to wait before trying again, where the service named some.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after


class Client:
    """A served gallery.

    Parameters:
        url: where it is; a path in it is kept, for a service below one.
        key: an API key, as `arcset keys add` prints it; None where the server has none.
        timeout: seconds to wait for the server each time.

    Images are paths, the bytes of files, PIL images or uint8 arrays, as everywhere in arcset. They
    are read here and sent; the server never opens a path or an address. Connections are kept open,
    and opened anew where the server closed them in between; no proxy is taken from the environment.
    Threads may share a client. Close it, or use it in a `with` statement.

    All methods raise `ServiceError` where the service refuses or cannot be reached. What changes
    something is sent once: after `timeout` or `disconnected` it may or may not have happened.
    Raises `OptionError` for what is no http address or no key, and where httpx is missing.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8321", key: str | None = None, timeout: float = 30.0
    ) -> None:
        try:
            import httpx  # late: the package without this extra can list its names
        except ModuleNotFoundError as error:
            raise OptionError(
                f"{error.name} is missing, which arcset.Client needs: pip install 'arcset[client]'"
            ) from None
        try:
            address = httpx.URL(url)
            is_http = address.scheme in ("http", "https") and address.host
        except httpx.InvalidURL:
            is_http = False
        if not is_http or address.query or address.userinfo:
            raise OptionError(f"{url!r} is not the address of a service, as http://host:port is")
        headers = {"Accept": "application/json"}
        if key is not None:
            if not (key.isascii() and key.isprintable() and key.strip() == key):
                raise OptionError("the key holds characters that no key has: was it wrapped?")
            headers["Authorization"] = f"Bearer {key}"
        self._url, self._timeout = url, timeout
        # A transport of its own: the system's certificates, no proxies, and it outlives `close`.
        self._transport = httpx.HTTPTransport(verify=ssl.create_default_context(), trust_env=False)
        self._http = httpx.Client(
            base_url=address,
            headers=headers,
            timeout=httpx.Timeout(timeout, pool=None),
            transport=self._transport,
            trust_env=False,
        )

    def __repr__(self) -> str:
        return f"<Client of {self._url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next request would open another."""
        self._transport.close()

    # Questions

    def gallery(self) -> dict[str, Any]:
        """What is served: model, dim, subjects, samples, scoring, your role, limits and more."""
        return dict(self._ask("GET", "gallery"))

    def embed(self, images: Any) -> npt.NDArray[np.float32]:
        """Embeddings of one image or many: (N, D), unit rows."""
        rows: list[Any] = []
        for files in _portions(images):
            rows += self._ask("POST", "embed", files=files)["embeddings"]
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
        options = {"far": far, "threshold": threshold, "subject": subject}
        images = {"image": a} if b is None else {"a": a, "b": b}
        files = [_read_file(image, name) for name, image in images.items()]
        answer = self._ask("POST", "verify", form=options, files=files)
        known = {name: answer[name] for name in Verification.__dataclass_fields__}
        return Verification(**known | {"expected": as_range(answer["expected"])})

    def identify(
        self,
        image: Any,
        *,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> Match:
        """Who an image shows, or that nobody known is shown: see `identify_many`.

        Of a photo in which faces are found, the one in the middle counts.
        """
        options = {"fpir": fpir, "threshold": threshold, "candidates": candidates}
        return self._identify_one(image, options)[0]

    def identify_all(
        self,
        image: Any,
        *,
        fpir: float | None = None,
        threshold: float | None = None,
        candidates: int = 5,
    ) -> list[Match]:
        """Who each face of a photo shows, the one in the middle first; none where there is no face.

        Where the service takes whole images it is `identify`, as a list of one.
        """
        options = {"fpir": fpir, "threshold": threshold, "candidates": candidates}
        try:
            return self._identify_one(image, options)
        except ServiceError as error:
            if error.code != "no_face":
                raise
            return []

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
        options = {"fpir": fpir, "threshold": threshold, "candidates": candidates}
        found = [one for files in _portions(images) for one in self._identify(files, options)]
        return [one if isinstance(one, ServiceError) else one[0] for one in found]

    def _identify_one(self, image: Any, options: Fields) -> list[Match]:
        (found,) = self._identify([_read_file(image)], options)
        if isinstance(found, ServiceError):
            raise found
        return found

    def _identify(self, files: Sequence[File], options: Fields) -> list[list[Match] | ServiceError]:
        """Of each image the matches of its faces, or its one match; or why there is none."""
        try:
            answer = self._ask("POST", "identify", form=options, files=files)
        except ServiceError as error:
            if len(files) > 1 or error.code not in _ABOUT_ONE_IMAGE:
                raise
            return [error]  # one image alone is refused as a whole
        return [_matches(result) for result in answer["results"]]

    def threshold(self, fpir: float | None = None) -> WorkingPoint:
        """Where "known" begins at the gallery's present size, for an FPIR, by default 0.01."""
        answer = self._ask("GET", "threshold", query={"fpir": fpir})
        if answer["working_point"] is None:
            raise ServiceError(answer["code"], answer["why"], status=200)
        point = answer["working_point"]
        return WorkingPoint.from_json(point)

    # Who is enrolled

    def subjects(self, search: str = "") -> Iterator[Subject]:
        """All subjects, first enrolled first, asked for page by page as they are used.

        search: only those with this in their name, in capital or small letters.
        """
        after = None
        while True:
            query = {"limit": _PAGE, "after": after, "search": search or None}
            page = self._ask("GET", "subjects", query=query)
            yield from map(_subject, page["subjects"])
            if (after := page["next"]) is None:
                return

    def subject(self, name: str) -> Subject:
        """One of them."""
        return _subject(self._ask("GET", f"subjects/{_quoted(name)}"))

    def samples(self, name: str) -> tuple[Sample, ...]:
        """What the gallery holds of a subject; digests stay with the service."""
        samples = self._ask("GET", f"subjects/{_quoted(name)}/samples")["samples"]
        return tuple(
            Sample(one["id"], one["source"], None, _time(one["added"]), one["has_image"])
            for one in samples
        )

    def image(self, sample: int, size: int | None = None) -> bytes | None:
        """A small picture of a sample, as the bytes of an image file; None where none is kept."""
        try:
            return self._fetch("GET", f"samples/{sample}/image", query={"size": size})
        except ServiceError as error:
            if error.code == "no_image_kept":
                return None
            raise

    # Changes, for keys of the role `write`

    def enroll(self, name: str, images: Any) -> tuple[int, ...]:
        """Enroll a new subject, or further samples of one; on the disk when it returns.

        Returns the numbers of the samples. All images are enrolled, or none.
        """
        files = [_read_file(image) for image in as_sources(images)]
        try:
            answer = self._ask("POST", "subjects", form={"name": name}, files=files)
        except ServiceError as error:
            if error.code != "already_exists":
                raise
            answer = self._ask("POST", f"subjects/{_quoted(name)}/samples", files=files)
        return tuple(answer["sample_ids"])

    def rename(self, old: str, new: str) -> None:
        """Give a subject another name; one that is taken is refused."""
        self._ask("PATCH", f"subjects/{_quoted(old)}", content={"name": new})

    def remove(self, name: str) -> int:
        """Remove a subject with all its samples; how many these were."""
        return int(self._ask("DELETE", f"subjects/{_quoted(name)}")["removed"])

    def remove_sample(self, sample: int) -> None:
        """Remove one sample; a subject without samples goes with its last."""
        self._ask("DELETE", f"samples/{sample}")

    # How it is asked

    def _ask(self, method: str, path: str, **sent: Any) -> Any:
        """The service's answer, as JSON; options as of `_fetch`."""
        content = self._fetch(method, path, **sent)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ServiceError(
                "bad_answer", f"{self._url} does not answer as arcset does"
            ) from None

    def _fetch(
        self,
        method: str,
        path: str,
        *,
        query: Fields | None = None,
        form: Fields | None = None,
        files: Sequence[File] | None = None,
        content: Any = None,
    ) -> bytes:
        """The body of the answer; raises `ServiceError` for everything but success."""
        import httpx

        try:
            request = self._http.build_request(
                method,
                f"/v1/{path}",
                params=_without_none(query),
                data=_without_none(form),
                files=files,
                json=content,
            )
        except (UnicodeEncodeError, httpx.InvalidURL) as error:
            raise InputError(f"this cannot be sent to {self._url}: {error}") from None
        response = self._send(request, again=method == "GET")
        if not response.is_success:
            raise _refusal(response, self._url)
        return response.content

    def _send(self, request: "httpx.Request", *, again: bool) -> "httpx.Response":
        """Send once; with `again` a second time if the connection was lost."""
        import httpx

        try:
            return self._http.send(request)
        except httpx.TimeoutException:
            message = f"{self._url} did not answer in {self._timeout:g} seconds"
            raise ServiceError("timeout", message) from None
        except httpx.ConnectError as error:
            reason = str(error).partition("] ")[2] or str(error)  # without its number
            message = f"{self._url} cannot be reached: {reason}"
            raise ServiceError("unreachable", message) from None
        except httpx.TransportError:
            if again:
                return self._send(request, again=False)
            message = f"{self._url} closed the connection before it had answered"
            raise ServiceError("disconnected", message) from None
        except httpx.DecodingError as error:
            raise ServiceError("bad_answer", f"{self._url} answered badly: {error}") from None


def _without_none(fields: Fields | None) -> dict[str, str]:
    return {name: str(value) for name, value in (fields or {}).items() if value is not None}


def _quoted(name: str) -> str:
    """A name as one part of a path, whatever characters it has: ".." would lead elsewhere."""
    try:
        return quote(name, safe="").replace(".", "%2E")
    except UnicodeEncodeError:
        raise InputError(f"the name {name!r:.50} cannot be sent as UTF-8") from None


def _read_file(image: Any, field: str = "image") -> File:
    """One image as it is sent; of its path the last part alone."""
    file = original(image)
    return field, (PurePath(file.source or "").name or "image", file.content)


def _portions(images: Any) -> Iterator[list[File]]:
    """Images in portions that fit into a request each, read as they are sent."""
    portion: list[File] = []
    size = 0
    for source in as_sources(images):
        file = _read_file(source)
        size += len(file[1][1])
        if portion and (len(portion) == _PORTION_IMAGES or size > _PORTION_BYTES):
            yield portion
            portion, size = [], len(file[1][1])
        portion.append(file)
    yield portion


def _refusal(response: "httpx.Response", url: str) -> ServiceError:
    wait = response.headers.get("Retry-After", "")
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError, RecursionError):  # a proxy, or another service
        code = "bad_answer"
        message = f"{url} answered {response.status_code} {response.reason_phrase}"
    return ServiceError(
        code,
        message,
        status=response.status_code,
        request_id=response.headers.get("X-Request-ID"),
        retry_after=float(wait) if wait.isascii() and wait.isdigit() else None,
    )


def _matches(result: dict[str, Any]) -> list[Match] | ServiceError:
    if "error" in result:
        return ServiceError(result["error"]["code"], result["error"]["message"])
    if (faces := result.get("faces")) is None:
        return [_match(result)]
    return [_match(face, box=tuple(face["box"]), faces=len(faces)) for face in faces]


def _match(fields: dict[str, Any], **face: Any) -> Match:
    cosine = fields["cosine"]
    names = ("subject", "probability", "threshold", "fpir", "reason", "rough", "published")
    return Match(
        cosine=math.nan if cosine is None else cosine,
        expected=as_range(fields["expected"]),
        candidates=tuple(
            Candidate(one["subject"], one["cosine"], one["probability"])
            for one in fields["candidates"]
        ),
        **{name: fields[name] for name in (*names, "subjects", "prior", "note")},
        **face,
    )


def _subject(fields: dict[str, Any]) -> Subject:
    return Subject(fields["name"], fields["samples"], _time(fields["added"]))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
