"""Losses on the disk, whose centers several processes may hold: each writes and reads its own.

- As a folder, to go on from: `save_loss` and `load_loss`, through torch.distributed.checkpoint in
  its safetensors form. Every process writes its slice of the centers, and of whatever belongs to
  them, into files of its own, and of what all have alike each a part. Any other number of processes
  can read that again.
- As one safetensors file, to hand on: `export_loss`.

Nothing is pickled, and no process ever holds more than its slice.
"""

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor

from arcset.centers import Centers, Shard
from arcset.centers.update import STATES
from arcset.checks import check_count
from arcset.distributed import on_main, run_together
from arcset.errors import OptionError, RunError
from arcset.files import one_line, replacing, replacing_folder, sync
from arcset.losses.base import Loss

# A file is made in memory, so that a large tensor gets one of its own, or several.
_LARGE = 1 << 26  # bytes
_BLOCK, _MOST_BLOCKS = 1 << 28, 128  # bytes of all processes together
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


def shard_of(loss: Loss) -> Shard:
    """This process's part of the centers: all of them where nothing is shared."""
    whole = Shard.of(None, loss.classes)
    return next((head.shard for head in heads_of(loss).values()), whole)


def save_loss(loss: Loss, folder: Path | str) -> None:
    """Write the state of `loss`, with that of a fused update, to a new folder.

    Where processes share the centers, all of them call this, with a folder that all can reach. It
    appears when it is complete. Raises `RunError` where something stands in its place, or where one
    of them cannot write.
    """
    folder, shard = Path(folder), shard_of(loss)

    def check() -> None:
        if folder.exists():
            raise RunError(f"{folder} is there already")

    stage = on_main(shard.rank == 0, shard.group) if shard.shared else None
    check() if stage is None else stage(check)
    with replacing_folder(folder, on_main=stage) as part:
        save_sharded(part, loss_tensors(loss), shard.group, alone=not shard.shared)


def load_loss(loss: Loss, folder: Path | str) -> None:
    """Bring `loss` to what `save_loss` wrote, from however many processes.

    All of those that share it now call this. For other classes see `export_loss` and `regrow`.
    Raises `RunError` where the folder does not hold such a loss.
    """
    shard = shard_of(loss)
    load_sharded(Path(folder), loss_tensors(loss), shard.group, alone=not shard.shared)


def heads_of(loss: Loss) -> dict[str, Centers]:
    """The parts of a loss that have rows per class, by their names."""
    return {name: one for name, one in loss.named_modules() if isinstance(one, Centers)}


def loss_tensors(loss: Loss) -> dict[str, Tensor]:
    """Its state, those with rows per class as all processes have them together."""
    heads, tensors = heads_of(loss), dict[str, Tensor]()
    for name, tensor in loss.state_dict().items():
        head = heads.get(name.rpartition(".")[0])
        tensors |= {name: tensor} if head is None else by_class(head, name, tensor)
    return tensors


def by_class(head: Centers, name: str, rows: Tensor) -> dict[str, Tensor]:
    """Rows per class as (C, …) or, with K > 1 for each, (C, K, …), of all processes' classes.

    Large ones come as blocks of columns, NAME.00 and so on, because each is written from memory.
    """
    rows = rows.detach()
    each = len(rows) // head.classes
    columns = rows.shape[1] if rows.ndim > 1 else 1
    size = head.shard.classes * each * columns * rows.element_size()
    count = min(-(-size // _BLOCK), _MOST_BLOCKS, columns)
    blocks = {name: rows}
    if count > 1:
        parts = rows.tensor_split(count, dim=1)
        blocks = {f"{name}.{number:02d}": part for number, part in enumerate(parts)}
    return {key: head.shard.by_class(part) for key, part in blocks.items()}


def save_sharded(
    folder: Path, tensors: dict[str, Tensor], group: Any = None, *, alone: bool = False
) -> None:
    """Write named tensors into a folder that is there; all processes of the group call this.

    alone: there may be a group, but only this process calls. Raises `RunError` where one cannot
    write.
    """
    checkpoint = _library()
    flat, files = dict(tensors), dict.fromkeys(tensors, 1)
    number = 1
    for name, tensor in tensors.items():
        if tensor.numel() * tensor.element_size() > _LARGE:
            files[name] = number = number + 1
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        if local.untyped_storage().nbytes() == local.nbytes:
            flat[name] = tensor.contiguous()  # of blocks the writer makes copies, one by one
    writer = checkpoint.HuggingFaceStorageWriter(
        str(folder), fqn_to_index_mapping=files, save_distributed=True
    )
    try:
        with _quietly():
            checkpoint.save(
                flat,
                storage_writer=writer,
                process_group=group,
                no_dist=alone or not dist.is_initialized(),
            )
    except checkpoint.CheckpointException as error:
        raise RunError(f"{folder} cannot be written: {_reason(error)}") from None


@torch.no_grad()
def load_sharded(
    folder: Path, tensors: dict[str, Tensor], group: Any = None, *, alone: bool = False
) -> None:
    """Fill named tensors with what `save_sharded` wrote, by however many processes.

    alone: there may be a group, but only this process calls. Raises `RunError` where the folder
    does not hold them.
    """
    checkpoint = _library()
    reader = checkpoint.HuggingFaceStorageReader(str(folder))
    together = not alone and dist.is_initialized()
    run_together(lambda: _check_complete(folder, reader), together=together, group=group)
    try:
        with _quietly():
            checkpoint.load(
                dict(tensors), storage_reader=reader, process_group=group, no_dist=not together
            )
    except (checkpoint.CheckpointException, OSError, RuntimeError, ValueError) as error:
        raise RunError(f"{folder} does not fit: {_reason(error)}") from None


def _check_complete(folder: Path, reader: Any) -> None:
    """Refuse, with `RunError`, a folder of which a file is torn, or some rows are nowhere."""
    if not any(folder.glob("*.safetensors")):
        raise RunError(f"{folder} holds no saved loss")
    try:
        stored = reader.read_metadata().state_dict_metadata
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise RunError(f"{folder} holds a file that is torn or no saved loss: {error}") from None
    for name, tensor in stored.items():
        stored_size = sum(math.prod(chunk.sizes) for chunk in tensor.chunks)
        if stored_size != math.prod(tensor.size):
            raise RunError(
                f"{folder} does not hold all of {name}: a file is missing, or there twice"
            )


def _reason(error: BaseException) -> str:
    """What was wrong, in the first process where something was."""
    failures = getattr(error, "failures", None)
    return one_line(next(iter(failures.values()))[0] if failures else error)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without being told that a single process is alone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def _library() -> Any:
    import torch.distributed.checkpoint as checkpoint  # takes a second

    if not hasattr(checkpoint, "HuggingFaceStorageWriter"):
        raise OptionError(
            f"share_centers needs torch 2.8 or newer for its checkpoints, not {torch.__version__}"
        )
    return checkpoint


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
    count = loss.classes if classes is None else check_count("classes", classes, 1, loss.classes)
    shard = shard_of(loss)
    writes_common = shard.rank == 0  # the header, and what all have alike
    entries = _entries(loss, count)
    header, starts = _header(entries)

    def fill() -> None:
        with part.open("r+b") as file:
            if writes_common:
                file.write(header)
            for entry, start in zip(entries, starts, strict=True):
                if writes_common or entry.row:
                    _write(file, entry, start)
        sync(part)

    stage = on_main(shard.rank == 0, shard.group) if shard.shared else None
    with replacing(Path(path), on_main=stage) as part:
        run_together(fill, together=shard.shared, group=shard.group)


def _entries(loss: Loss, classes: int) -> list[_Entry]:
    """All tensors of the file, in the same order in every process."""
    heads, entries = heads_of(loss), []
    for name, tensor in loss.state_dict().items():
        owner, _, short = name.rpartition(".")
        head = heads.get(owner)
        if head is not None and short in STATES:
            continue
        if head is None:
            cut = tensor.ndim > 0 and len(tensor) == loss.classes
            here = tensor[:classes] if cut else tensor
            entries.append(_Entry(name, list(here.shape), here, 0))
            continue
        each = len(tensor) // head.classes
        first = head.shard.first
        here = tensor[: max(0, classes - first) * each]
        entries.append(_Entry(name, [classes * each, *tensor.shape[1:]], here, first * each))
    return entries


def _header(entries: list[_Entry]) -> tuple[bytes, list[int]]:
    """The beginning of the file, and where in it each tensor stands."""
    content: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    ends = [0]
    for entry in entries:
        ends.append(ends[-1] + math.prod(entry.shape) * entry.here.element_size())
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
