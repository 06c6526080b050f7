"""Networks for faces that others have published, fetched once and checked."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from arcset.data.named.fetch import data_folders, download
from arcset.errors import DataError

__all__ = ["SFACE", "YUNET", "ModelFile", "file_digest"]

_FOLDER = "faces"  # below $ARCSET_DATA and the cache folder
_HOMES = (
    "https://github.com/opencv/opencv_zoo/raw/main/models",
    "https://media.githubusercontent.com/media/opencv/opencv_zoo/main/models",
    "https://huggingface.co/opencv",
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
        places = [folder / self.name for folder in data_folders(_FOLDER)]
        for place in places:
            if place.is_file():
                return self._checked(place)
        return download(self.urls, places[-1], check=self._checked)

    def _checked(self, place: Path) -> Path:
        found = file_digest(place)
        if found != self.sha256:
            raise DataError(
                f"{place} is not {self.title}: its sha256 is {found}, and should be {self.sha256}; "
                "remove it, and it will be downloaded anew"
            )
        return place


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; raises `DataError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def _zoo(folder: str, name: str) -> tuple[str, ...]:
    git, media, hub = _HOMES
    return (
        f"{git}/{folder}/{name}",
        f"{media}/{folder}/{name}",
        f"{hub}/{folder}/resolve/main/{name}",
    )


#: Finds faces and five points in each. Wu, Peng, Yu: YuNet, a tiny millisecond-level face detector
#: (2023).
YUNET = ModelFile(
    name="face_detection_yunet_2023mar.onnx",
    title="YuNet, a face detector",
    licence="MIT",
    sha256="8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4",
    urls=_zoo("face_detection_yunet", "face_detection_yunet_2023mar.onnx"),
)
#: Tells aligned faces apart, 128-D. Zhong et al.: SFace, sigmoid-constrained hypersphere loss for
#: robust face recognition (2021).
SFACE = ModelFile(
    name="face_recognition_sface_2021dec.onnx",
    title="SFace, a face recognizer",
    licence="Apache 2.0",
    sha256="0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79",
    urls=_zoo("face_recognition_sface", "face_recognition_sface_2021dec.onnx"),
)
