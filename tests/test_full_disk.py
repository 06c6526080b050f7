"""A disk that is full leaves no part of a file, and the error names the file that was wanted.

What becomes of a gallery's changes is in recognition/gallery/test_full_disk.py.
"""

import numpy as np
import pytest

from arcset import ArcsetError, Gallery, RunError, build_loss
from arcset.data import pack
from arcset.data.embeddings import EmbeddingSet, write_embeddings
from arcset.losses import export_loss, save_loss
from arcset.recognition.export import export
from arcset.recognition.onnx_model import adopt
from arcset.runs import RunConfig
from arcset.training import train
from arcset.training.watchers import Silent
from support import small_data
from support.bulk import RefusedError, embed, photo_run
from support.disks import leave, small_disk
from support.onnx_graphs import linear
from support.photos import photos

ROWS = np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32)
SET = EmbeddingSet.of(ROWS, [f"n{number % 20}" for number in range(500)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, pictures, an ONNX file and a gallery, on a disk with room."""
    place = tmp_path_factory.mktemp("made")
    photo_run(place)
    photos(place / "faces", [10] * 20, side=32)
    linear(place / "net.onnx", values=90, dim=200)
    with Gallery.open(place / "people.db", dim=64) as gallery:
        gallery.enroll_many(SET.names.tolist(), embeddings=ROWS)
    return place


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", "4m") as place:
        yield place


def write_export(made, out):
    with Gallery.open(made / "people.db") as gallery:
        gallery.export(out)


def make_gallery(made, out):
    Gallery.open(out, dim=64).close()


#: What is written, how many bytes of the disk are free, and what writes it.
WRITERS = {
    "e.npz": (40_000, lambda made, out: write_embeddings(out, SET)),
    "e.parquet": (40_000, lambda made, out: write_embeddings(out, SET)),
    "model.onnx": (40_000, lambda made, out: export(made / "run", out)),
    "adopted.onnx": (40_000, lambda made, out: adopt(made / "net.onnx", out, preset="unit")),
    "pack": (210_000, lambda made, out: pack(made / "faces", out)),  # all but its last file
    "loss": (40_000, lambda made, out: save_loss(build_loss("arcface", 64, 500), out)),
    "loss.safetensors": (
        40_000,
        lambda made, out: export_loss(build_loss("arcface", 64, 500), out),
    ),
    "people.parquet": (40_000, write_export),
    "people.db": (8_000, make_gallery),
    "other.db": (40_000, make_gallery),  # it is made, and then cannot be opened
    "shards.npz": (0, lambda made, out: embed(made / "run", made / "photos", out)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_left_and_the_error_names_what_was_wanted(made, disk, name):
    free, write = WRITERS[name]
    leave(disk, free)
    with pytest.raises((ArcsetError, OSError, RefusedError)) as caught:
        write(made, disk / name)
    assert str(disk / name) in str(caught.value)
    assert ".part" not in str(caught.value)
    assert [path.name for path in disk.rglob("*")] == ["others"]


def test_a_folder_of_embeddings_is_gone_on_with(made, disk):
    leave(disk, 8_000)
    with pytest.raises((ArcsetError, OSError, RefusedError), match=str(disk / "shards")):
        embed(made / "run", made / "photos", disk / "shards")
    assert not [path for path in disk.rglob("*") if path.suffix in (".parquet", ".part")]
    (disk / "others").unlink()
    assert embed(made / "run", made / "photos", disk / "shards").made > 0


@pytest.mark.parametrize("name", ["e.npz", "model.onnx", "loss.safetensors", "people.parquet"])
def test_what_stood_there_stays(made, disk, name):
    (disk / name).write_bytes(b"before")
    free, write = WRITERS[name]
    leave(disk, free)
    with pytest.raises((ArcsetError, OSError)):
        write(made, disk / name)
    assert (disk / name).read_bytes() == b"before"
    assert {path.name for path in disk.rglob("*")} == {"others", name}


@pytest.mark.parametrize(
    ("free", "wanted"),
    [
        (0, "config.toml"),
        (4_096, "embeddings/samples.safetensors"),
        (30_000, "model.safetensors"),
        (450_000, "checkpoint/step-"),
    ],
)
def test_a_training_leaves_what_it_had_finished(tmp_path, disk, free, wanted):
    data = small_data.images(tmp_path / "images.npz")
    config = RunConfig(data=str(data), network="simple", dim=4, epochs=1, batch=32)
    leave(disk, free)
    with pytest.raises((RunError, OSError)) as caught:
        train(config, disk / "run", device="cpu", watcher=Silent())
    assert str(disk / "run" / wanted) in str(caught.value)
    assert not [path for path in disk.rglob("*") if path.name.startswith(".")]
