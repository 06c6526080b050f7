"""The public `Embedder`: the same rows whoever calls it; and the guide's programs, for real."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pytest
from PIL import Image
from pyarrow import parquet

import arcset
from arcset import DataError, OptionError, Recognizer
from arcset.recognition.export import export
from support.photos import photos
from support.processes import environment
from support.random_runs import random_run

GUIDE = Path(__file__).parents[2] / "docs/guides/embed-at-scale.md"
BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```", re.M | re.S)
PROGRAMS = dict(BLOCK.findall(GUIDE.read_text("utf-8")))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder as the guide has it: model.onnx and photos/."""
    place = tmp_path_factory.mktemp("embedder")
    export(random_run(place / "run"), place / "model.onnx")
    photos(place / "photos", [5] * 30, side=10)
    return place


@pytest.fixture(scope="module")
def paths(made):
    return sorted((made / "photos").rglob("*.png"))


@pytest.fixture(scope="module")
def rows(made, paths):
    return Recognizer.load(made / "model.onnx").embed(paths)


def test_a_sequence_of_images_of_any_kind(made, paths, rows):
    embedder = pickle.loads(pickle.dumps(arcset.Embedder(made / "model.onnx")))
    for images in (
        [str(path) for path in paths],
        (path.read_bytes() for path in paths),
        [Image.open(path) for path in paths],
        np.stack([np.asarray(Image.open(path)) for path in paths]),
    ):
        np.testing.assert_allclose(embedder(images), rows, atol=1e-6)
    assert embedder(paths[0]).shape == (1, 8)


def data_frame(columns):
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns)


@pytest.mark.parametrize("kind", [dict, data_frame, arrow.table])
def test_a_table_comes_back_with_a_column_more(made, paths, rows, kind):
    table = kind({"file": [str(path) for path in paths]})
    found = arcset.Embedder(made / "model.onnx", column="file", output="vector")(table)
    assert type(found) is type(table)
    vectors = found["vector"].to_pylist() if kind is arrow.table else list(found["vector"])
    np.testing.assert_allclose(np.stack(vectors), rows, atol=1e-6)
    with pytest.raises(OptionError, match=r"'path'.*'file'"):
        arcset.Embedder(made / "model.onnx")(table)


def test_an_image_that_cannot_be_read(made, paths, rows, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"nothing")
    names = [str(paths[0]), str(tmp_path / "bad.png"), str(paths[1])]
    with pytest.raises(DataError, match=r"bad\.png"):
        arcset.Embedder(made / "model.onnx")(names)
    found = arcset.Embedder(made / "model.onnx", errors="coerce")({"path": names})
    assert np.isnan(found["embedding"]).all(axis=1).tolist() == [False, True, False]
    np.testing.assert_allclose(found["embedding"][::2], rows[:2], atol=1e-6)
    assert [bool(why) for why in found["error"]] == [False, True, False]
    with pytest.raises(OptionError, match="errors"):
        arcset.Embedder(made / "model.onnx", errors="ignore")


def run_program(made, name):
    """A program of the guide, in a process of its own; what it printed."""
    (made / name).write_text(PROGRAMS[name], "utf-8")
    done = subprocess.run(
        [sys.executable, name],
        cwd=made,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_program_of_the_guide_is_run_here():
    assert set(PROGRAMS) == {"pool.py", "ray_embed.py", "folder.py"}


@pytest.mark.timeout(300)
def test_a_pool_of_processes(made, paths, rows):
    assert "(150, 8)" in run_program(made, "pool.py")
    np.testing.assert_allclose(np.load(made / "pool.npz")["embeddings"], rows, atol=1e-6)


def test_the_folder_of_the_guide(made):
    assert "150 0 1" in run_program(made, "folder.py")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ray_goes_on_through_its_parquet_files(made, paths, rows):
    """Half of the paths are done before, and a file is cut off; the rest is embedded."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'arcset[ray]'")
    folder = made / "embedded"
    folder.mkdir()
    (made / "photos/bad.png").write_bytes(b"nothing")
    names = [str(path.relative_to(made)) for path in paths]
    here = {"path": names[:75], "embedding": rows[:75].tolist(), "error": [""] * 75}
    parquet.write_table(arrow.table(here), folder / "first.parquet")
    whole = (folder / "first.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    assert "75 are done, 76 to do" in run_program(made, "ray_embed.py")
    (made / "photos/bad.png").unlink()
    written = [parquet.ParquetFile(file).read() for file in folder.glob("*.parquet")]
    found = {row["path"]: row for table in written for row in table.to_pylist()}
    assert sum(map(len, written)) == len(found) == 151
    bad = found.pop("photos/bad.png")
    assert np.isnan(bad["embedding"]).all()
    assert bad["error"]
    assert sorted(found) == names
    embeddings = np.array([found[name]["embedding"] for name in names])
    np.testing.assert_allclose(embeddings, rows, atol=1e-6)
    assert "151 are done, 0 to do" in run_program(made, "ray_embed.py")
