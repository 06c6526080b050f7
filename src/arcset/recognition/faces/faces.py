"""Where the faces of a photo are."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcset.errors import DataError, OptionError
from arcset.recognition.faces.alignment import align
from arcset.recognition.faces.face import Face, Found
from arcset.recognition.faces.models import YUNET, file_digest
from arcset.recognition.faces.opencv import opencv
from arcset.recognition.faces.photo import Pixels, called, read_photo

__all__ = ["LEAST", "SCORE", "Faces"]

SCORE = 0.7  # how sure the detector has to be
LEAST = 24.0  # pixels, the shorter side of the smallest face that is used

_OVERLAP = 0.3  # intersection over union from which on two boxes are of one face
_MOST = 5000  # boxes that the detector looks through
_ERRORS = 2  # OpenCV's number for logging nothing but errors
#: The longest sides at which a photo is looked through. The detector knows faces of some 10 to 300
#: pixels: a larger photo is looked through a second time, coarsely, for faces that fill it.
_SIDES = (1280, 320)


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
        if not 0 < score < 1:
            raise OptionError(f"score={score!r} is out of range, expected a number in (0, 1)")
        if not 1 <= least <= 4096:
            raise OptionError(f"least={least!r} is out of range, expected 1 to 4096 pixels")
        self.path, self.least, self.score = path, float(least), float(score)
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

    def find(self, photo: Any, name: str = "") -> Found:
        """The faces of one photo: a path, bytes, PIL image, or uint8 array (H, W[, C]).

        Photos are turned upright by their EXIF orientation; faces that lie on their side otherwise
        may not be found. Raises `DataError` or `InputError` as `read_photo` does.
        """
        return self.find_in(read_photo(photo, name))

    def find_in(self, photo: Pixels) -> Found:
        """As `find`, in a photo that was read: (H, W, 3), RGB."""
        longest = max(photo.shape[:2])
        sides = [_SIDES[0], *(side for side in _SIDES[1:] if 2 * side <= longest)]
        found = _apart(face for side in sides for face in self._look(photo, side))
        kept = sorted(found, key=lambda face: (-_prominence(face, photo), face.box))
        large = tuple(face for face in kept if face.size >= self.least)
        return Found(large, tuple(face for face in kept if face.size < self.least), self.least)

    def crop(self, photo: Any, name: str = "") -> Pixels:
        """The main face, aligned, (112, 112, 3); raises `NoFaceError` where there is none."""
        pixels = read_photo(photo, name)
        return align(pixels, self.find_in(pixels).main(called(photo, name)).points)

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
    try:
        with _quiet(cv2):
            size = (64, 64)
            found = cv2.FaceDetectorYN.create(str(path), "", size, score, _OVERLAP, _MOST)
            found.detect(np.zeros((*size, 3), np.uint8))  # other networks fail only here
    except cv2.error:
        raise DataError(
            f"{path} is no face detector that OpenCV can use, expected YuNet of 2023 or later, as "
            f"{YUNET.name}"
        ) from None
    return found


@contextmanager
def _quiet(cv2: Any) -> Iterator[None]:
    """Without OpenCV's remarks about its own engines; older ones set the level elsewhere."""
    logging = getattr(cv2.utils, "logging", cv2)
    before = logging.getLogLevel()
    logging.setLogLevel(_ERRORS)
    try:
        yield
    finally:
        logging.setLogLevel(before)


def _apart(faces: Iterable[Face]) -> list[Face]:
    """Without those found twice: of two that overlap, the surer one stays."""
    kept: list[Face] = []
    for face in sorted(faces, key=lambda face: -face.score):
        if all(_overlap(face, other) < _OVERLAP for other in kept):
            kept.append(face)
    return kept


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
