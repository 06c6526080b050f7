"""Faces in photos: found, aligned, embedded. Needs OpenCV: `pip install 'arcset[faces]'`.

- `Faces`: where the faces of a photo are, with YuNet.
- `align`: a face as the 112×112 pixels that recognizers expect.
- `FaceRecognizer`: an embedder of photos, to be used like any other.
"""

import hashlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.checks import check_number, check_rate
from arcset.data.image import LARGEST, open_image, read_file, to_channels, turn_upright
from arcset.data.named.fetch import data_folders, download
from arcset.errors import DataError, InputError, OptionError
from arcset.files import file_digest
from arcset.recognition.inputs import SourceImage, check_kind, image_name
from arcset.recognition.recognizer import Embeddings, ImageEmbedder, Prepared

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]

# Photos as they are: upright, in colour, at their full size


def read_photo(source: Any) -> Pixels:
    """One photo as uint8 RGB (H, W, 3), of the size that it has, turned upright by its EXIF.

    source: a file, the content of one, a PIL image, or an array of uint8: (H, W) or (H, W, C) with
        1, 3 or 4 channels. `to_channels` says what becomes of grey and transparency.
    Raises `DataError` that names a file that is missing, cut off, too large or no image, and
    `InputError` for anything else.

        >>> read_photo(np.zeros((4, 6), np.uint8)).shape
        (4, 6, 3)
    """
    name = image_name(source, "the photo")
    check_kind(source)
    if isinstance(source, SourceImage):
        source = source.content()
    if isinstance(source, str | Path):
        source = read_file(source, name)
    with open_image(source, name) as image:
        return np.asarray(to_channels(turn_upright(image), 3, name))


# Where the faces are

SCORE = 0.7  # how sure the detector has to be
LEAST = 24.0  # pixels, the shorter side of the smallest face that is used

_OVERLAP = 0.3  # intersection over union from which on two boxes are of one face
_MOST = 5000  # boxes that the detector looks through
_ERRORS = 2  # OpenCV's number for logging nothing but errors
#: The longest sides at which a photo is looked through. The detector knows faces of some 10 to 300
#: pixels: a larger photo is looked through a second time, coarsely, for faces that fill it.
_SIDES = (1280, 320)


@dataclass(frozen=True)
class Face:
    """One face, in pixels of the upright photo.

    Fields:
        box: left, top, width and height; it may reach beyond the photo.
        points: (x, y) of five landmarks: the eye on the left of the picture, that on the right, the
            nose, the left and the right corner of the mouth.
        score: how sure the detector is, in 0 … 1.
    """

    box: Box
    points: tuple[tuple[float, float], ...]
    score: float

    @property
    def size(self) -> float:
        """The shorter side of the box, in pixels."""
        return min(self.box[2:])

    def __str__(self) -> str:
        left, top, width, height = self.box
        return f"face of {width:.0f}×{height:.0f} pixels at ({left:.0f}, {top:.0f})"

    def json(self) -> dict[str, Any]:
        """The fields as JSON knows them, in hundredths of pixels."""
        return {
            "box": [round(value, 2) for value in self.box],
            "points": [[round(x, 2), round(y, 2)] for x, y in self.points],
            "score": round(self.score, 4),
        }

    @classmethod
    def of_row(cls, row: npt.NDArray[Any], scale: float) -> "Face":
        """From a detector's row: box, points, score, in pixels that are `scale` times as large.

        The centers of pixels lie at whole numbers.
        """
        values = np.asarray(row, np.float64)
        points = (values[4:14].reshape(5, 2) + 0.5) * scale - 0.5
        left, top, width, height = (float(value) * scale for value in values[:4])
        return cls(
            (left, top, width, height),
            tuple((float(x), float(y)) for x, y in points),
            min(max(float(values[14]), 0.0), 1.0),
        )


@dataclass(frozen=True)
class DetectedFaces:
    """The faces of a photo.

    Fields:
        faces: those that are large enough, the main one first: see `Faces`.
        small: the others.
        least: from how many pixels on a face is large enough.

    It is true where there is a face: `if detected: …`.
    """

    faces: tuple[Face, ...]
    small: tuple[Face, ...]
    least: float

    def __len__(self) -> int:
        return len(self.faces)

    @property
    def why(self) -> str:
        """Why there is no face, in half a sentence; empty where there is one.

        >>> DetectedFaces((), (), 32).why
        'shows no face'
        """
        if self.faces:
            return ""
        if not self.small:
            return "shows no face"
        size = f"{max(face.size for face in self.small):.0f}"
        return f"shows no face large enough: the largest is {size} pixels, less than {self.least:g}"


class Faces:
    """Finds faces with YuNet: see `Faces.load`.

    The main face comes first, the one that a photo of a single person is about: the area of a face
    counts, less twice the squared distance of its center from that of the photo. So a bystander at
    the edge does not win by being a little nearer to the camera.

    Attributes:
        least: the shorter side of the smallest face that is used, in pixels.
        score: how sure the detector has to be, in 0 … 1.
        digest: SHA-256 of the detector's file, in hexadecimal.
    """

    def __init__(self, path: Path, *, least: float = LEAST, score: float = SCORE) -> None:
        self.path, self.score = path, check_rate("score", score)
        self.least = check_number("least", least, 1, LARGEST, closed="both")
        self.digest = file_digest(path)
        self._detector = _detector(path, score)
        self._lock = threading.Lock()  # the detector keeps the size of the photo at hand

    @classmethod
    def load(
        cls, path: Path | str | None = None, *, least: float = LEAST, score: float = SCORE
    ) -> "Faces":
        """With YuNet from an ONNX file; without `path` it is looked for, and else downloaded.

        It is looked for in `$ARCSET_DATA/faces`, then in the user's cache folder.
        Raises `OptionError` where OpenCV is missing or an option is out of range, and `DataError`
        where the file is missing, cannot be had, or is no such detector.
        """
        opencv()
        return cls(YUNET.find() if path is None else Path(path), least=least, score=score)

    def find(self, photo: Any) -> DetectedFaces:
        """The faces of one photo: a path, bytes, PIL image, or uint8 array (H, W[, C]).

        Photos are turned upright by their EXIF orientation; faces that lie on their side otherwise
        may not be found. Raises `DataError` or `InputError` as `read_photo` does.
        """
        return self.find_in(read_photo(photo))

    def find_in(self, photo: Pixels) -> DetectedFaces:
        """As `find`, in a photo that was read: (H, W, 3), RGB."""
        longest = max(photo.shape[:2])
        sides = [_SIDES[0], *(side for side in _SIDES[1:] if 2 * side <= longest)]
        faces = _without_repeats(face for side in sides for face in self._look(photo, side))
        faces.sort(key=lambda face: (-_prominence(face, photo), face.box))
        large, small = (
            tuple(face for face in faces if (face.size >= self.least) == is_large)
            for is_large in (True, False)
        )
        return DetectedFaces(large, small, self.least)

    def _look(self, photo: Pixels, side: int) -> Iterator[Face]:
        """What the detector finds in a photo of which no side is longer than `side`."""
        cv2 = opencv()
        height, width = photo.shape[:2]
        scale = max(1.0, max(height, width) / side)
        size = (max(1, round(width / scale)), max(1, round(height / scale)))
        small = photo if scale == 1 else cv2.resize(photo, size, interpolation=cv2.INTER_AREA)
        with self._lock:
            self._detector.setInputSize(size)
            rows: npt.NDArray[np.float32] | None
            _, rows = self._detector.detect(np.ascontiguousarray(small[:, :, ::-1]))  # as BGR
        for row in () if rows is None else rows:
            if np.isfinite(row).all() and row[2] > 0 and row[3] > 0:
                yield Face.of_row(row, scale)


def _detector(path: Path, score: float) -> Any:
    cv2 = opencv()
    logging = getattr(cv2.utils, "logging", cv2)  # older ones set the level elsewhere
    before = logging.getLogLevel()
    logging.setLogLevel(_ERRORS)  # without remarks about its own engines
    try:
        size = (64, 64)
        detector = cv2.FaceDetectorYN.create(str(path), "", size, score, _OVERLAP, _MOST)
        detector.detect(np.zeros((*size, 3), np.uint8))  # other networks fail only here
    except cv2.error:
        raise DataError(
            f"{path} is no face detector that OpenCV can use, expected YuNet of 2023 or later, as "
            f"{YUNET.name}"
        ) from None
    finally:
        logging.setLogLevel(before)
    return detector


def _without_repeats(faces: Iterable[Face]) -> list[Face]:
    """Each face once: of two that overlap, the surer one stays."""
    distinct: list[Face] = []
    for face in sorted(faces, key=lambda face: -face.score):
        if all(_overlap(face, other) < _OVERLAP for other in distinct):
            distinct.append(face)
    return distinct


def _prominence(face: Face, photo: Pixels) -> float:
    """How much a photo seems to be about a face, in square pixels."""
    left, top, width, height = face.box
    across = left + width / 2 - photo.shape[1] / 2
    down = top + height / 2 - photo.shape[0] / 2
    return float(width * height - 2 * (across**2 + down**2))


def _overlap(one: Face, other: Face) -> float:
    """Intersection over union of two boxes."""
    (left, top, width, height), (x, y, w, h) = one.box, other.box
    across = min(left + width, x + w) - max(left, x)
    down = min(top + height, y + h) - max(top, y)
    if across <= 0 or down <= 0:
        return 0.0
    return across * down / (width * height + w * h - across * down)


# Faces turned, scaled and moved so that eyes, nose and mouth lie where recognizers expect them: the
# five landmarks that ArcFace's published code aligns to, and with it nearly every network for faces
# since. Umeyama: Least-squares estimation of transformation parameters between two point patterns
# (1991).

ALIGNMENT = "arcface-112/1"  # part of a face recognizer's digest: to be counted up on any change
SIDE = 112
#: (x, y) of the eye on the left of the picture, that on the right, nose, and corners of the mouth.
POINTS: Floats = np.array(
    [
        [38.2946, 51.6963],
        [73.5318, 51.5014],
        [56.0252, 71.7366],
        [41.5493, 92.3655],
        [70.7299, 92.2041],
    ]
)


def similarity(source: npt.ArrayLike, target: npt.ArrayLike) -> Floats:
    """The turn, scale and shift (2, 3) that bring points (K, 2) nearest to others, not mirrored.

    It minimizes the sum over k of ‖A·(x_k, y_k, 1) − target_k‖². Raises `InputError` unless both
    are equally many finite points, at least two of them apart.

        >>> moved = similarity([[0, 0], [1, 0], [0, 1]], [[5, 5], [5, 7], [3, 5]])
        >>> moved.round(6) + 0  # a quarter turn, twice as large, shifted by (5, 5)
        array([[ 0., -2.,  5.],
               [ 2.,  0.,  5.]])
    """
    start, end = np.asarray(source, np.float64), np.asarray(target, np.float64)
    is_paired = start.shape == end.shape and start.shape[1:] == (2,)
    if not (is_paired and np.isfinite(start).all() and np.ptp(start, axis=0).any()):
        raise InputError(f"points of a face are (5, 2) and not all the same, and these are {start}")
    middle, goal = start.mean(0), end.mean(0)
    centered, wanted = start - middle, end - goal
    spread = float((centered**2).sum())
    # In the plane the best turn has a closed form: with points as complex numbers, the similarity
    # is z → c·z, and c = Σ conj(z)·w / Σ |z|². It cannot mirror.
    along = float((centered * wanted).sum()) / spread
    across = float((centered[:, 0] * wanted[:, 1] - centered[:, 1] * wanted[:, 0]).sum()) / spread
    turn = np.array([[along, -across], [across, along]])
    return np.column_stack((turn, goal - turn @ middle))


def align(photo: Pixels, points: npt.ArrayLike) -> Pixels:
    """The face with these five points (5, 2) of a photo (H, W, 3), as (112, 112, 3).

    Interpolation is bilinear, and what lies outside the photo is black. A face that shrinks to a
    half or less is first averaged over whole blocks of pixels, so that nothing in it is left out.
    Raises `InputError` for points that no face can have, as all in one place.
    """
    cv2 = opencv()
    matrix = similarity(points, POINTS)
    finer = int(1 / np.hypot(matrix[0, 0], matrix[1, 0]) + 1e-6)  # photo pixels per new pixel
    if finer >= 2:
        down, right = (-length % finer for length in photo.shape[:2])
        whole = np.pad(photo, ((0, down), (0, right), (0, 0)), mode="edge")
        size = (whole.shape[1] // finer, whole.shape[0] // finer)
        photo = cv2.resize(whole, size, interpolation=cv2.INTER_AREA)
        # The center of block k lies at k·finer + (finer − 1)/2 of the photo.
        shift = matrix[:, 2] + matrix[:, :2] @ np.full(2, (finer - 1) / 2)
        matrix = np.column_stack((matrix[:, :2] * finer, shift))
    aligned: Pixels = cv2.warpAffine(photo, matrix, (SIDE, SIDE), flags=cv2.INTER_LINEAR)
    return aligned


def opencv() -> Any:
    """The module cv2, an extra, which is imported where it is first needed.

    Raises `OptionError` that says how to install it where it is missing.
    """
    try:
        import cv2
    except ImportError as error:
        raise OptionError(
            f"faces need OpenCV, which cannot be imported ({error}): pip install 'arcset[faces]'"
        ) from None
    if not hasattr(cv2, "FaceDetectorYN"):
        raise OptionError(
            f"OpenCV {cv2.__version__} has no face detector: pip install 'arcset[faces]'"
        )
    return cv2


# Embedded


class FaceRecognizer(ImageEmbedder):
    """An embedder of photos: finds the faces, aligns them, and lets another embedder embed them.

    recognizer: whatever embeds aligned faces, uint8 RGB (N, 112, 112, 3): a network for faces from
        an ONNX file, or a run that was trained on aligned faces.
    faces: the detector.

    Where one row per photo is wanted it is that of the main face (see `Faces`); `embed_each` and
    `embed_all` give all of them. The digest covers the recognizer, the detector's file, and the
    alignment.
    """

    _chunk = 32  # photos, which may be large

    def __init__(self, recognizer: ImageEmbedder, faces: Faces) -> None:
        parts = ("arcset faces", recognizer.digest, faces.digest, ALIGNMENT)
        super().__init__(
            recognizer.name,
            recognizer.dim,
            hashlib.sha256("\n".join(parts).encode()).hexdigest(),
            recognizer.thresholds,
        )
        self.recognizer, self.faces = recognizer, faces
        self.published, self.trained_on = recognizer.published, recognizer.trained_on
        if recognizer.origin is not None and (faces.least, faces.score) == (LEAST, SCORE):
            self.origin = recognizer.origin[0], str(faces.path)

    def _prepare(self, source: Any, most: int | None) -> Prepared:
        photo = read_photo(source)
        detected = self.faces.find_in(photo)
        faces = detected.faces[:most]
        crops = [align(photo, face.points) for face in faces]
        return Prepared(crops, faces, len(detected), detected.why)

    def _embed(self, samples: npt.NDArray[Any]) -> Embeddings:
        return self.recognizer.embed(samples)


# Networks for faces that others have published, fetched once and checked

_FOLDER = "faces"  # below $ARCSET_DATA and the cache folder
#: Where OpenCV publishes its zoo: the folder of a network and its file go behind.
_HOMES = (
    "https://github.com/opencv/opencv_zoo/raw/main/models/{}/{}",
    "https://media.githubusercontent.com/media/opencv/opencv_zoo/main/models/{}/{}",
    "https://huggingface.co/opencv/{}/resolve/main/{}",
)


@dataclass(frozen=True)
class ModelFile:
    """A file that is the same wherever it comes from.

    name: of the file. title: one line for people. licence: as its publisher states it.
    sha256: of its content, in hexadecimal. urls: where it can be had, tried in this order.
    """

    name: str
    title: str
    licence: str
    sha256: str
    urls: tuple[str, ...]

    def find(self) -> Path:
        """`$ARCSET_DATA/faces/NAME`, or the same in the cache folder; downloaded if in neither.

        Raises `DataError` where it cannot be had, or what lies there is another file.
        """
        paths = [folder / self.name for folder in data_folders(_FOLDER)]
        for path in paths:
            if path.is_file():
                return self._check(path)
        return download(self.urls, paths[-1], check=self._check)

    def _check(self, path: Path) -> Path:
        digest = file_digest(path)
        if digest != self.sha256:
            raise DataError(
                f"{path} is not {self.title}: its sha256 is {digest}, and should be {self.sha256}; "
                "remove it, and it will be downloaded anew"
            )
        return path


def _zoo_file(folder: str, *, name: str, **about: str) -> ModelFile:
    return ModelFile(name=name, urls=tuple(home.format(folder, name) for home in _HOMES), **about)


#: Finds faces and five points in each. Wu, Peng, Yu: YuNet, a tiny millisecond-level face detector
#: (2023).
YUNET = _zoo_file(
    "face_detection_yunet",
    name="face_detection_yunet_2023mar.onnx",
    title="YuNet, a face detector",
    licence="MIT",
    sha256="8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4",
)
#: Tells aligned faces apart, 128-D. Zhong et al.: SFace, sigmoid-constrained hypersphere loss for
#: robust face recognition (2021).
SFACE = _zoo_file(
    "face_recognition_sface",
    name="face_recognition_sface_2021dec.onnx",
    title="SFace, a face recognizer",
    licence="Apache 2.0",
    sha256="0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79",
)
