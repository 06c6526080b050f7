"""Tensors on disk: safetensors, written beside and renamed, read with one clear error."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arcset.errors import RunError
from arcset.files import replacing

__all__ = ["load_tensors", "save_tensors", "writing"]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the disk, as one that is full, into a `RunError` that names `path`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise RunError(f"{path} cannot be written: {why}") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to `path`, or leave `path` as it was.

    Raises `RunError` where they cannot be written, as on a full disk.
    """
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with writing(path), replacing(path) as part:
        part.touch()
        mode = part.stat().st_mode  # what the user's umask says; safetensors lets nobody else read
        save_file(content, part)
        part.chmod(mode)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote; a `RunError` names the file where it cannot be read."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} is missing or damaged: {error}") from None
