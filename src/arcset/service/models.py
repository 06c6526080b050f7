"""The JSON of every request and answer, as pydantic reads, writes and documents it."""

import binascii
from base64 import b64decode
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import unquote

from fastapi import Response
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from arcset.recognition import decisions
from arcset.recognition.decisions import Candidate, WorkingPoint
from arcset.recognition.gallery.samples import LONGEST_NAME, check_name
from arcset.recognition.operating_curves import OperatingCurves

Rate = Annotated[float, Field(gt=0, lt=1)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(check_name)]
Box = tuple[float, float, float, float]  # left, top, width, height, in pixels
Role = Literal["read", "write"]
Moment = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


def _decode_path(text: object) -> str:
    try:
        return unquote(str(text), errors="strict")
    except UnicodeDecodeError:
        raise ValueError("a name in a path is UTF-8, percent-encoded") from None


#: A percent-encoded name; paths are matched as they were sent, so that a name may hold a slash.
NameInPath = Annotated[
    str, BeforeValidator(_decode_path), Field(min_length=1, max_length=LONGEST_NAME)
]


# Images


class Image(NamedTuple):
    """The bytes of an image file, and what the file was called if anybody said."""

    content: bytes
    name: str | None = None


def _read_image(value: object) -> Image:
    """An image as it is, or out of base64; URLs and paths are never followed."""
    if isinstance(value, Image):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("bad_request", "an image is one file, or one text in base64")
    head, comma, text = value.partition(",") if value.startswith("data:") else ("", "", value)
    if head and not (comma and head.endswith(";base64")):
        raise PydanticCustomError("not_an_image", "the data: URL is not base64")
    try:
        return Image(b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise PydanticCustomError(
            "not_an_image", "an image is a file, or base64; URLs and paths are not followed"
        ) from None


_TEXT = {
    "type": "string",
    "format": "byte",
    "contentEncoding": "base64",
    "description": "An image file as base64, or as a data: URL. Other URLs are not followed.",
}
_FILE = {"type": "string", "format": "binary", "description": "An image file."}

ImageField = Annotated[Image, PlainValidator(_read_image), WithJsonSchema(_TEXT)]
OneImage = Annotated[Image | None, PlainValidator(_read_image), WithJsonSchema(_TEXT)]
ImageFields = Annotated[
    list[ImageField],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    Field(min_length=1),
]


# Requests


class Request(BaseModel):
    """A query or a body. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ImagesRequest(Request):
    """Images, at least one, as `image` or `images`."""

    image: ImageFields = Field(default_factory=list)
    images: ImageFields = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_images(self) -> Self:
        if not self.all_images:
            raise PydanticCustomError(
                "bad_request", "there is no image: send image files as `image`"
            )
        return self

    @property
    def all_images(self) -> list[Image]:
        """Those of both fields."""
        return self.image + self.images


class EnrollRequest(ImagesRequest):
    """A new subject and images of it."""

    name: Name


class RenameRequest(Request):
    """The new name of a subject."""

    name: Name


class _OneLimit(Request):
    """A threshold, or the rate that the other field names."""

    threshold: Cosine | None = Field(default=None, description="A cosine instead of a rate.")

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        rate = "fpir" if "fpir" in type(self).model_fields else "far"
        if self.threshold is not None and getattr(self, rate) is not None:
            raise PydanticCustomError(
                "bad_request", f"{rate} and threshold both say where the limit is: leave one out"
            )
        return self


class VerifyOptions(_OneLimit):
    """The threshold from which two images count as the same."""

    far: Rate | None = Field(
        default=None,
        description="The share of different pairs that may be taken for the same identity.",
    )


class VerifyRequest(VerifyOptions):
    """Two images, or one and a subject."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["a", "b"]}, {"required": ["image", "subject"]}]}
    )
    a: OneImage = None
    b: OneImage = None
    image: OneImage = None
    subject: str | None = Field(default=None, min_length=1, max_length=LONGEST_NAME)

    @model_validator(mode="after")
    def _check_images(self) -> Self:
        images = {"a": self.a, "b": self.b, "image": self.image, "subject": self.subject}
        given = {name for name, value in images.items() if value is not None}
        if given not in ({"a", "b"}, {"image", "subject"}):
            raise PydanticCustomError(
                "bad_request", "two images are sent as `a` and `b`, or one as `image` and `subject`"
            )
        return self


class ThresholdOptions(Request):
    """The rate that a threshold is for."""

    fpir: Rate | None = Field(
        default=None, description="The share of strangers that may be mistaken for a subject."
    )


class IdentifyOptions(ThresholdOptions, _OneLimit):
    """Where "known" begins, and how many candidates are listed."""

    candidates: int = Field(default=5, ge=1, le=100)


class IdentifyRequest(IdentifyOptions, ImagesRequest):
    """Images to be identified."""


class Page(Request):
    """Which part of the list of subjects."""

    limit: int = Field(default=50, ge=1, le=1000, description="How many at most.")
    after: str | None = Field(
        default=None, description="The last name of the page before: its `next`."
    )
    search: str = Field(default="", description="A part of the name, in any case of letters.")


class Size(Request):
    """How large a thumbnail is."""

    size: int = Field(default=256, ge=16, le=256, description="Pixels of the longer side.")


def request_body(model: type[Request]) -> dict[str, Any]:
    """What the document says of a body: JSON; where there are images, a form as well."""
    schema = model.model_json_schema()
    content = {"application/json": {"schema": schema}}
    files = {
        name: {**part, "items": _FILE} if "items" in part else _FILE
        for name, part in schema["properties"].items()
        if name in ("image", "images", "a", "b")
    }
    if files:
        form = {**schema, "properties": {**schema["properties"], **files}}
        content["multipart/form-data"] = {"schema": form}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


# Answers


class Answer(BaseModel):
    """An answer as JSON."""

    model_config = ConfigDict(extra="forbid")

    def response(self, status: int = 200) -> Response:
        """As it is sent; NaN becomes null."""
        return Response(self.model_dump_json(), status, media_type="application/json")


class ErrorDetail(Answer):
    """What is wrong: a code that never changes, and a sentence for people."""

    code: str
    message: str


class ProblemDetail(ErrorDetail):
    """An error, with the id of the request in the service's log."""

    request_id: str


class Problem(Answer):
    """The answer to a request that failed."""

    error: ProblemDetail


class Status(Answer):
    """The state of the service."""

    status: str


class Embeddings(Answer):
    """Unit vectors, one per image, whose inner products are cosines."""

    model: str
    digest: str
    dim: int
    embeddings: list[list[float]]


class Verification(Answer):
    """See `decisions.Verification`."""

    same: bool | None
    cosine: float
    probability: float | None
    threshold: float | None
    far: float | None
    reason: Literal["above threshold", "below threshold", "no calibration"]
    rough: bool
    expected: tuple[float, float] | None
    published: str | None
    note: str
    decided: bool
    prior: float | None


class Match(Answer):
    """Who an image shows, or that it shows no enrolled subject: see `decisions.Match`."""

    subject: str | None
    cosine: float | None
    probability: float | None
    threshold: float | None
    candidates: tuple[Candidate, ...]
    fpir: float | None
    reason: Literal["above threshold", "below threshold", "empty gallery", "no calibration"]
    rough: bool
    expected: tuple[float, float] | None
    published: str | None
    decided: bool
    subjects: int
    prior: float | None
    note: str

    @classmethod
    def of(cls, match: decisions.Match, **more: Any) -> Self:
        """As the gallery gave it."""
        return cls(**{name: getattr(match, name) for name in Match.model_fields}, **more)


class FaceMatch(Match):
    """Who one face of a photo shows; the box is in pixels of the photo, turned upright."""

    box: Box


class PhotoMatch(Match):
    """The answer for a photo: of the face in the middle, and of each face."""

    faces: list[FaceMatch]


class Unreadable(Answer):
    """Takes the place of an image that cannot be read."""

    error: ErrorDetail


class Identified(Answer):
    """An answer for each image, in their order, and where "known" began; null if nowhere."""

    results: list[PhotoMatch | Match | Unreadable]
    threshold: WorkingPoint | None
    note: str


class ThresholdState(Answer):
    """Where "known" begins, or why that is not known, and what other thresholds would do."""

    working_point: WorkingPoint | None
    why: str | None
    code: str | None
    fpir: float
    subjects: int
    samples: int
    scoring: str
    curves: OperatingCurves | None


class GalleryInfo(Answer):
    """What is served, and what the caller may do."""

    name: str
    model: str
    digest: str
    dim: int
    subjects: int
    samples: int
    scoring: str
    keep_images: bool
    version: str
    read_only: bool
    limits: dict[str, int]
    role: Role


class SubjectEntry(Answer):
    """A subject; `image` is a sample whose image is kept."""

    name: str
    samples: int
    added: Moment
    image: int | None


class Subjects(Answer):
    """A page of subjects; `next` is what the next page comes `after`."""

    subjects: list[SubjectEntry]
    next: str | None
    total: int


class SampleEntry(Answer):
    """A sample; `source` is the name of its file."""

    id: int
    source: str | None
    added: Moment
    has_image: bool


class Samples(Answer):
    """All samples of a subject."""

    samples: list[SampleEntry]


class Enrolled(Answer):
    """How many samples a subject has now, and the numbers of the new ones."""

    name: str
    samples: int
    sample_ids: tuple[int, ...]


class TakenFace(Answer):
    """The face of a photo that was enrolled, and how many the photo shows."""

    box: Box
    count: int


class EnrolledPhotos(Enrolled):
    """The same where faces are found, with the face of each photo."""

    faces: list[TakenFace]


class Renamed(Answer):
    """The name that a subject has now."""

    name: str


class Removed(Answer):
    """How many samples are gone."""

    removed: int


class RunEntry(Answer):
    """A trained run; `pictured` says whether it kept epochs to look at."""

    id: str
    title: str
    loss: str
    dim: int
    epochs: list[int]
    pictured: bool


class Runs(Answer):
    """The runs that can be looked at."""

    runs: list[RunEntry]
