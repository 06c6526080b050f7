"""A folder of shards before the first sample is embedded: begun, found again, or refused."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from arcset.data.embeddings import (
    INPUTS,
    MANIFEST,
    OWN,
    TRAINED_ON,
    Manifest,
    holds_shards,
    read_manifest,
)
from arcset.data.sources.base import Source, printable
from arcset.errors import DataError, OptionError, RunError
from arcset.files import replacing, write_text
from arcset.recognition.bulk.listed import write_list
from arcset.recognition.bulk.models import BulkModel

__all__ = ["begin", "check_place", "default_shard_size", "locked"]

_SMALLEST, _LARGEST, _PIECES = 256, 10_000, 1024
_WAIT = 20.0  # seconds for another process that may be about to end


def default_shard_size(inputs: int) -> int:
    """So many that there are about a thousand shards to share out, within bounds.

    >>> [default_shard_size(inputs) for inputs in (100, 1_000_000, 50_000_000)]
    [256, 977, 10000]
    """
    return min(_LARGEST, max(_SMALLEST, -(-inputs // _PIECES)))


def begin(
    folder: Path,
    source: Source,
    model: BulkModel,
    *,
    shard_size: int | None,
    dtype: str,
    force: bool,
) -> Manifest:
    """List the inputs and see to it that the folder is about them and the model; by the chief.

    A folder that was begun with the same is gone on with. One with other embeddings is refused, or
    becomes that of these with `force`. Raises `OptionError` or `DataError`, and then the folder is
    as it was.
    """
    there = _there(folder, force)
    with replacing(folder / INPUTS) as part:
        listed = write_list(source, part)
        wanted = Manifest(
            model=printable(model.name),
            digest=model.digest,
            dim=model.dim,
            unit=model.unit,
            source=printable(source.name),
            kind=source.kind,
            inputs=listed.inputs,
            listed=listed.digest,
            identities=listed.identities,
            shard_size=shard_size or default_shard_size(listed.inputs),
            dtype=dtype,  # type: ignore[arg-type]
        )
        if there is not None:
            known = wanted.model_copy(update={"shard_size": there.shard_size})
            if shard_size is None and (not force or known.identity == there.identity):
                wanted = known
            if not force:
                _check_same(folder, there, wanted)
    _say_trained_on(folder, model)  # always: whoever wrote the manifest may not have come to it
    if there is None or there.identity != wanted.identity:
        wanted.save(folder)
    _clean(folder, wanted)
    return wanted


def check_place(folder: Path) -> None:
    """Raises `OptionError` for a file, and for a folder with anything else than embeddings."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file: name a folder for the shards")
    if folder.is_dir() and not holds_shards(folder):
        others = [entry.name for entry in folder.iterdir() if entry.name != OWN]
        if others:
            raise OptionError(
                f"{folder} holds other things, as {min(others)}, and no embeddings: name a new "
                "folder"
            )


def _there(folder: Path, force: bool) -> Manifest | None:
    """What the folder is of; None for a new one, and for a damaged one that is to be replaced."""
    if not holds_shards(folder):
        return None
    try:
        return read_manifest(folder)
    except DataError as error:
        if force:
            return None
        raise DataError(f"{error}; begin anew with --force, or name another folder") from None


def _check_same(folder: Path, there: Manifest, wanted: Manifest) -> None:
    """Raises `OptionError` where shards of one would stand beside those of the other."""
    if there.identity == wanted.identity:
        return
    if there.digest == wanted.digest and there.unit != wanted.unit:
        lengths = ["as the network gives them", "of length 1"]
        why = (
            f"holds embeddings {lengths[there.unit]} ({there.model}), and those of {wanted.model} "
            f"would be {lengths[wanted.unit]}"
        )
    elif (there.digest, there.dim) != (wanted.digest, wanted.dim):
        why = (
            f"holds embeddings of the model {there.model} ({there.digest[:12]}), and this one is "
            f"{wanted.model} ({wanted.digest[:12]})"
        )
    elif (there.inputs, there.listed) != (wanted.inputs, wanted.listed):
        why = (
            f"was begun with {there.inputs:,} inputs of {there.source}, and the "
            f"{wanted.inputs:,} of {wanted.source} are not the same"
        )
    elif there.shard_size != wanted.shard_size:
        why = f"has shards of {there.shard_size:,}, not of {wanted.shard_size:,}"
    else:
        why = f"holds {there.dtype}, not {wanted.dtype}"
    raise OptionError(f"{folder} {why}: name another folder, or replace them with --force")


def _say_trained_on(folder: Path, model: BulkModel) -> None:
    if model.trained_on is None:
        (folder / TRAINED_ON).unlink(missing_ok=True)
    else:
        write_text(folder / TRAINED_ON, json.dumps(list(model.trained_on), ensure_ascii=False))


def _clean(folder: Path, manifest: Manifest) -> None:
    """Remove what processes that were killed have left, and shards past the last one."""
    for place in (folder, folder / OWN):
        for part in place.glob(".*.part"):
            part.unlink(missing_ok=True)
    for place, pattern in ((folder, "shard-*.parquet"), (folder / OWN, "skipped-*.json")):
        for file in place.glob(pattern):
            number = file.stem.rpartition("-")[2]
            if not number.isdigit() or int(number) >= manifest.shards:
                file.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others from writing to the folder, which is made if need be; by the chief.

    The system lets go of it when the process ends, however it does. If the block raises and the
    folder is still without a manifest, what was made here goes again. Raises `RunError` where
    another process is at work.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    lock = folder / OWN / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        _hold(handle.fileno(), folder)
        try:
            yield
        except BaseException:
            if not (folder / MANIFEST).exists():
                for file in (lock, folder / INPUTS, folder / TRAINED_ON):
                    file.unlink(missing_ok=True)
                for place in (folder / OWN, *made):
                    with suppress(OSError):  # no longer empty
                        place.rmdir()
            raise


def _hold(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on every system
        return
    until = time.monotonic() + _WAIT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise RunError(
                    f"another process is writing to {folder}: wait for it, or name another folder"
                ) from None
            time.sleep(0.1)
        except OSError:  # a file system without locks
            return
