"""Files that are damaged, or made to do harm: one sentence that names them, and never a traceback.

Hypothesis cuts and changes valid files of every kind that can come from elsewhere.
"""

import io
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

from arcset import ArcsetError, DataError, Gallery
from arcset.data import Split
from arcset.data.embeddings import (
    MANIFEST,
    EmbeddingSet,
    Manifest,
    read_embeddings,
    write_embeddings,
    write_shard,
)
from arcset.data.mapping import ClassMapping
from arcset.data.sources.load import load_dataset
from arcset.data.sources.pack import pack
from arcset.evaluation.calibration import Thresholds
from arcset.recognition import Recognizer
from arcset.runs import Run
from arcset.runs.config import read_settings
from arcset.service.keys import Keys

FROZEN = Path(__file__).parents[1] / "contract" / "frozen"
ROWS = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
NAMES = [f"n{number % 3}" for number in range(12)]
DEEP = "[" * 100_000


def refused(read, *arguments, kind=DataError, path):
    with pytest.raises(kind) as caught:
        read(*arguments)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# npz


def npz(path, change=None, *, kind=zipfile.ZIP_DEFLATED, **members):
    """An npz file of two arrays, of which one member's bytes may be others."""
    arrays = {"embeddings": ROWS, "labels": np.array(NAMES)}
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, array in arrays.items():
            out = io.BytesIO()
            np.save(out, array)
            archive.writestr(f"{name}.npy", members.get(name, out.getvalue()))
    if change is not None:
        path.write_bytes(change(bytearray(path.read_bytes())))
    return path


def header(text):
    """A .npy file that has this header and no content."""
    raw = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw


def unsupported(content):
    """Say that all members are compressed by a method that there is not."""
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            content[start + place] = 97
    return content


def flipped(content):
    """One bit within the compressed bytes of the first member."""
    content[len("PK..") + 26 + len("embeddings.npy") + 20] ^= 0x10
    return content


HEADERS = {
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4)}",
    "empty elements": "{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,)}",
    "keys that are lists": "{['descr']: '<f4'}",
    "nested": "-" * 9000 + "1",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (12,)}",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-12, 4)}",
}


@pytest.mark.parametrize("read", [read_embeddings, load_dataset])
@pytest.mark.parametrize("which", HEADERS)
def test_npz_headers_that_numpy_stumbles_over(tmp_path, which, read):
    path = npz(tmp_path / "a.npz", labels=header(HEADERS[which]))
    refused(read, path, path=path)


@pytest.mark.parametrize("read", [read_embeddings, load_dataset])
def test_npz_members_that_cannot_be_unpacked(tmp_path, read):
    path = tmp_path / "a.npz"
    for change in (unsupported, flipped, lambda content: content[: len(content) // 2]):
        refused(read, npz(path, change), path=path)
    refused(read, npz(path, labels=b"no array"), path=path)
    refused(read, npz(path, labels=b""), path=path)


def claiming(path, name, size):
    """An npz file in whose directory a member has this size."""
    with zipfile.ZipFile(npz(path), "a") as archive:
        archive.writestr("more.npy", b"")  # so that the directory is written anew
        archive.getinfo(f"{name}.npy").file_size = size
    return path


@pytest.mark.parametrize("read", [read_embeddings, load_dataset])
def test_an_npz_file_that_unpacks_to_more_than_the_memory(tmp_path, read):
    """A directory can say any size; nothing is unpacked to find out."""
    path = claiming(tmp_path / "a.npz", "labels", 10**13)
    with pytest.raises(DataError, match=r"a\.npz .*GiB"):
        read(path)


# Parquet


def test_text_in_a_parquet_file_that_is_not_unicode(tmp_path):
    path = tmp_path / "a.parquet"
    broken = arrow.array([b"\xff\xfe"] * 12).view(arrow.string())
    rows = arrow.array(ROWS.tolist())
    parquet.write_table(arrow.table({"embedding": rows, "label": broken}), path)
    refused(read_embeddings, path, path=path)
    parquet.write_table(arrow.table({"path": broken, "label": NAMES}), path)
    refused(load_dataset, path, path=path)


def test_columns_of_a_parquet_file_that_are_something_else(tmp_path):
    path, rows = tmp_path / "a.parquet", arrow.array(ROWS.tolist())
    for columns in (
        [("embedding", NAMES), ("label", NAMES)],
        [("embedding", arrow.array([[["deep"]]] * 12)), ("label", NAMES)],
        [("embedding", rows), ("label", ROWS.tolist())],
        [("embedding", rows), ("label", NAMES), ("label", NAMES)],
        [("embedding", rows), ("label", NAMES), ("path", ROWS.tolist())],
        [("embedding", arrow.array([{"x": 1.0}] * 12)), ("label", NAMES)],
    ):
        names, values = zip(*columns, strict=True)
        arrays = [arrow.array(one) if isinstance(one, list) else one for one in values]
        parquet.write_table(arrow.Table.from_arrays(arrays, names=list(names)), path)
        refused(read_embeddings, path, path=path)


def test_metadata_of_a_parquet_file(tmp_path):
    path = tmp_path / "a.parquet"
    table = arrow.table({"embedding": arrow.array(ROWS.tolist()), "label": NAMES})
    for said in (DEEP.encode(), b"\xff\xff", b"5", b"null"):
        parquet.write_table(table.replace_schema_metadata({b"arcset.trained_on": said}), path)
        refused(read_embeddings, path, path=path)
        parquet.write_table(table.replace_schema_metadata({b"arcset.gallery": said}), path)
        with Gallery.open(tmp_path / "g.db", dim=4) as gallery:
            refused(gallery.import_file, path, path=path)


# JSON and TOML


def text_files(tmp_path):
    """Every JSON or TOML file that may come from elsewhere, and what reads it."""
    run = shutil.copytree(FROZEN / "run", tmp_path / "run")
    config = Run.open(run).config
    return {
        run / "config.toml": lambda path: Run.open(path.parent),
        run / "threshold.json": Thresholds.load,
        run / "split.json": Split.load,
        run / "mapping.json": ClassMapping.load,
        run / "metrics.jsonl": lambda path: Run(path.parent, config).metrics(),
        tmp_path / "keys.json": Keys,
        tmp_path / "settings.toml": read_settings,
        tmp_path / "pack" / "pack.json": lambda path: load_dataset(path.parent),
    }


@pytest.mark.parametrize(
    "content",
    [DEEP, "9" * 5000, '{"a":' * 100_000, "\x00", '{"keys": 5}'],
    ids=lambda text: text[:4],
)
def test_json_and_toml_of_any_depth(tmp_path, content):
    for path, read in text_files(tmp_path).items():
        path.parent.mkdir(exist_ok=True)
        whole = path.read_bytes() if path.exists() else None
        path.write_text(f"a = {content}" if path.suffix == ".toml" else content)
        place = path.parent if path.name == "pack.json" else path
        refused(read, path, kind=ArcsetError, path=place)
        if whole is not None:
            path.write_bytes(whole)


def test_a_folder_of_shards_with_lists_of_any_depth(tmp_path):
    folder = shards(tmp_path / "folder")
    (folder / MANIFEST).write_text(DEEP)
    refused(read_embeddings, folder, path=folder)


def test_settings_of_a_gallery_of_any_depth(tmp_path):
    import sqlite3

    path = tmp_path / "g.db"
    Gallery.open(path, dim=4).close()
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO meta VALUES ('thresholds', ?)", (DEEP,))
        file.execute("INSERT INTO meta VALUES ('calibrated', 'x')")
    file.close()
    with Gallery.open(path) as gallery:
        refused(lambda: gallery.thresholds, path=path)


def test_the_label_of_an_onnx_file_of_any_depth(tmp_path):
    import onnx

    path = tmp_path / "a.onnx"
    for key in ("arcset.format", "arcset.shape", "arcset.thresholds"):
        model = onnx.load(FROZEN / "run.onnx")
        for entry in model.metadata_props:
            if entry.key == key:
                entry.value = DEEP
        onnx.save(model, path)
        refused(Recognizer.from_onnx, path, path=path)


# Anything


def shards(folder):
    (folder / "_arcset").mkdir(parents=True)
    manifest = Manifest(
        model="m",
        digest="d",
        dim=4,
        unit=False,
        source="s",
        kind="k",
        inputs=12,
        listed="l",
        identities=3,
        shard_size=12,
    )
    manifest.save(folder)
    write_shard(folder, manifest, 0, [None] * 12, NAMES, ROWS, [])
    return folder


def look_into_gallery(path):
    with Gallery.open(path, read_only=True) as gallery:
        gallery.search(ROWS, 3)
        for subject in gallery.subjects():
            gallery.samples(subject.name)
        gallery.labelled()
        gallery.export(path.with_name("again.parquet"))


def take_in(path):
    place = path.with_name("new.db")
    for end in ("", "-wal", "-shm"):
        Path(f"{place}{end}").unlink(missing_ok=True)
    with Gallery.open(place, dim=4) as gallery:
        gallery.import_file(path)
        gallery.subjects()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Valid files, and what reads each."""
    place = tmp_path_factory.mktemp("files")
    whole = EmbeddingSet.of(ROWS, NAMES, [f"{number}.png" for number in range(12)], ["n0"])
    for name in ("e.npz", "e.parquet"):
        write_embeddings(place / name, whole)
    for number, name in enumerate(NAMES):
        file = place / "faces" / name / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(file)
    pack(place / "faces", place / "pack")
    with Gallery.open(place / "g.db", dim=4) as gallery:
        gallery.enroll_many(NAMES, embeddings=ROWS)
        gallery.export(place / "g.parquet")
    shards(place / "shards")
    run = shutil.copytree(FROZEN / "run", place / "run")
    found = {
        place / "e.npz": read_embeddings,
        place / "e.parquet": read_embeddings,
        place / "g.db": look_into_gallery,
        place / "g.parquet": take_in,
        place / "shards" / "shard-00000.parquet": lambda path: read_embeddings(path.parent),
        place / "shards" / MANIFEST: lambda path: read_embeddings(path.parent.parent),
        run / "split.json": Split.load,
    }
    found |= {path: lambda path: load_dataset(path.parent) for path in (place / "pack").iterdir()}
    for name in ("config.toml", "threshold.json", "model.safetensors"):
        found[run / name] = lambda path: Recognizer.load(path.parent, device="cpu")
    found[run / "metrics.jsonl"] = lambda path: Run.open(path.parent).metrics()
    return [(path, read, path.read_bytes()) for path, read in found.items()]


def damaged(draw, whole):
    content = bytearray(whole)
    if draw.draw(st.integers(0, 5)) == 0:
        return bytes(content[: draw.draw(st.integers(0, len(content) - 1))])
    for _ in range(draw.draw(st.integers(1, 4))):
        content[draw.draw(st.integers(0, len(content) - 1))] = draw.draw(st.integers(0, 255))
    return bytes(content)


def check_damaged(files, draw):
    for path, read, whole in files:
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        path.write_bytes(damaged(draw, whole))
        said = ""
        try:
            read(path)
        except ArcsetError as error:
            said = str(error)
        finally:
            path.write_bytes(whole)
        assert "\n" not in said


CALM = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=10, **CALM)
@given(draw=st.data())
def test_whatever_is_changed_in_a_file_there_is_an_answer_or_one_sentence(files, draw):
    check_damaged(files, draw)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=2000, **CALM)
@given(draw=st.data())
def test_whatever_is_changed_in_a_file_many_times(files, draw):
    check_damaged(files, draw)


def test_a_pack_whose_lists_do_not_fit_though_their_checksums_do(tmp_path, files):
    """Whoever makes a file can make its checksum."""
    import hashlib

    source = next(path.parent for path, _, _ in files if path.name == "pack.json")
    place = shutil.copytree(source, tmp_path / "pack")

    def sealed():
        said = json.loads((place / "pack.json").read_text())
        for name in said["sha256"]:
            said["sha256"][name] = hashlib.sha256((place / name).read_bytes()).hexdigest()
        (place / "pack.json").write_text(json.dumps(said))
        refused(load_dataset, place, path=place)

    whole = (place / "labels.npy").read_bytes()
    for text in HEADERS.values():
        (place / "labels.npy").write_bytes(header(text))
        sealed()
    np.save(place / "labels.npy", np.full(12, -1))
    sealed()
    (place / "labels.npy").write_bytes(whole)
    parquet.write_table(arrow.table({"path": list(range(12))}), place / "paths.parquet")
    sealed()
    broken = arrow.array([b"\xff"] * 12).view(arrow.string())
    parquet.write_table(arrow.table({"path": broken}), place / "paths.parquet")
    sealed()
