"""A loss in one safetensors file, whoever holds its centers."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from arcset.centers.update import STATES
from arcset.checks import check_count
from arcset.distributed import run_together
from arcset.errors import OptionError
from arcset.files import naming
from arcset.losses.base import Loss
from arcset.losses.elastic import heads_of, shard_of

__all__ = ["export_loss"]

_PIECE = 1 << 26  # bytes that are copied at a time
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class _Entry(NamedTuple):
    """A tensor of the file: its name there and shape, what of it is here, and from which row on."""

    name: str
    shape: list[int]
    here: Tensor
    row: int


def export_loss(loss: Loss, path: Path | str, *, classes: int | None = None) -> None:
    """Write the state of `loss`, with all centers, to one safetensors file.

    Where processes share the centers, all of them call this, with a path that all can reach. Each
    writes its own rows in their place, so no process ever holds more than it has. The file holds
    what `loss.state_dict()` of a loss with all centers would, but for the state of a fused update,
    and appears when it is complete. `load_state_dict` reads it, and `regrow` for other classes.

    classes: how many of the classes, from the first on, are written; all if None.

    Where one process cannot write, all of them raise an error, and there is no file.
    """
    kept = loss.classes if classes is None else check_count("classes", classes)
    if kept > loss.classes:
        raise OptionError(f"classes={kept}: there are no more than {loss.classes} to be written")
    path, shard = Path(path), shard_of(loss)
    chief = shard is None or shard.rank == 0
    entries = _entries(loss, kept)
    header, starts = _header(entries)
    part = path.parent / f".{path.name}.part"

    def begin() -> None:
        if chief:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(header)

    def fill() -> None:
        with part.open("r+b") as file:
            for entry, start in zip(entries, starts, strict=True):
                if chief or entry.row:
                    _write(file, entry, start)
            file.flush()
            os.fsync(file.fileno())

    def end() -> None:
        if chief:
            part.replace(path)

    with naming(path, part):
        try:
            for stage in (begin, fill, end):
                run_together(stage, together=shard is not None, group=shard and shard.group)
        except BaseException:
            if chief:
                with suppress(OSError):
                    part.unlink()
            raise


def _entries(loss: Loss, kept: int) -> list[_Entry]:
    """All tensors of the file, in the same order in every process."""
    heads, found = heads_of(loss), []
    for name, tensor in loss.state_dict().items():
        owner, _, short = name.rpartition(".")
        head = heads.get(owner)
        if head is not None and short in STATES:
            continue
        if head is None:
            cut = tensor.ndim > 0 and len(tensor) == loss.classes
            here = tensor[:kept] if cut else tensor
            found.append(_Entry(name, list(here.shape), here, 0))
            continue
        each = len(tensor) // head.classes
        first = 0 if head.shard is None else head.shard.first
        here = tensor[: max(0, kept - first) * each]
        found.append(_Entry(name, [kept * each, *tensor.shape[1:]], here, first * each))
    return found


def _header(entries: list[_Entry]) -> tuple[bytes, list[int]]:
    """The beginning of the file, and where in it each tensor stands."""
    content: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    ends = [0]
    for entry in entries:
        size = entry.here.element_size()
        for side in entry.shape:
            size *= side
        ends.append(ends[-1] + size)
        content[entry.name] = {
            "dtype": _NAMES[entry.here.dtype],
            "shape": entry.shape,
            "data_offsets": ends[-2:],
        }
    text = json.dumps(content).encode()
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    return header, [len(header) + start for start in ends[:-1]]


def _write(file: Any, entry: _Entry, start: int) -> None:
    rows = entry.here.detach()
    if rows.ndim == 0:
        rows = rows[None]
    per_row = rows[:1].numel() * rows.element_size() if len(rows) else 0
    if not per_row:
        return
    file.seek(start + entry.row * per_row)
    for piece in rows.split(max(1, _PIECE // per_row)):
        file.write(piece.cpu().contiguous().view(torch.uint8).numpy().data)
