"""The public `Embedder`: the same rows whoever calls it; and the guide's programs, for real."""

import pickle
import re
import subprocess
import sys
import time
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
from support.ray_python import ray_python

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


def test_a_column_of_pixels(made, paths, rows):
    """As Ray Data's `read_images` has them, of one size or of several."""
    pixels = [np.asarray(Image.open(path)) for path in paths]
    ragged = np.empty(len(pixels), object)
    ragged[:] = pixels
    for column in (np.stack(pixels), ragged):
        found = arcset.Embedder(made / "model.onnx", column="image")({"image": column})
        np.testing.assert_allclose(found["embedding"], rows, atol=1e-6)


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


def start_program(folder, name, python=sys.executable, variables=None):
    """A program of the guide, in a process of its own, where the model and the photos are."""
    (folder / name).write_text(PROGRAMS[name], "utf-8")
    return subprocess.Popen(
        [python, name],
        cwd=folder,
        env=variables or environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(*words):
    """The same to its end; what it printed."""
    process = start_program(*words)
    out, err = process.communicate(timeout=550)
    assert process.returncode == 0, err[-3000:]
    return out


def test_every_program_of_the_guide_is_run_here():
    assert set(PROGRAMS) == {"pool.py", "ray_embed.py", "spark_embed.py", "folder.py"}


@pytest.mark.timeout(300)
def test_a_pool_of_processes(made, paths, rows):
    assert "(150, 8)" in run_program(made, "pool.py")
    np.testing.assert_allclose(np.load(made / "pool.npz")["embeddings"], rows, atol=1e-6)


def test_the_folder_of_the_guide(made):
    assert "150 0 1" in run_program(made, "folder.py")


def test_what_spark_calls(made, paths, rows, monkeypatch):
    """What `mapInPandas` takes, and a Series, as `pandas_udf` has it; without Spark itself."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    monkeypatch.chdir(made)
    spark = {"__name__": "spark_embed"}
    exec(PROGRAMS["spark_embed.py"], spark)
    names = pandas.Series([*map(str, paths), "lost.png"])
    tables = [pandas.DataFrame({"path": part}) for part in (names[:100], names[100:])]
    first, second = spark["embed"](iter(tables))
    assert list(second.columns) == ["path", "embedding", "error"]
    found = np.stack([*first["embedding"], *second["embedding"]])
    np.testing.assert_allclose(found[:-1], rows, atol=1e-6)
    assert np.isnan(found[-1]).all()
    assert second["error"].iloc[-1]
    np.testing.assert_allclose(spark["embedder"](names[:-1]), rows, atol=1e-6)


def written_by_ray(folder):
    """All rows, by their paths; fails where one is there twice."""
    tables = [parquet.ParquetFile(file).read().to_pylist() for file in folder.glob("*.parquet")]
    rows = {row["path"]: row for table in tables for row in table}
    assert len(rows) == sum(map(len, tables))
    return rows


def is_whole(file):
    try:
        parquet.ParquetFile(file)
    except arrow.ArrowInvalid:
        return False
    return True


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ray_goes_on_where_it_was_stopped(made, tmp_path):
    """Stopped when the first files are written; what they hold is not embedded again."""
    python = ray_python()
    (tmp_path / "model.onnx").symlink_to(made / "model.onnx")
    photos(tmp_path / "photos", [20] * 150, side=10)
    (tmp_path / "photos/bad.png").write_bytes(b"nothing")
    folder = tmp_path / "embedded"
    process = start_program(tmp_path, "ray_embed.py", *python)
    until = time.monotonic() + 300
    while not any(folder.glob("*.parquet")):
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < until
        time.sleep(0.001)
    process.terminate()
    assert process.communicate()[0].startswith("0 are done, 3001 to do")
    whole = {file: file.stat().st_mtime_ns for file in folder.glob("*.parquet") if is_whole(file)}
    count = sum(parquet.ParquetFile(file).metadata.num_rows for file in whole)
    assert 0 < count < 3001
    (folder / "cut.parquet").write_bytes(next(iter(whole)).read_bytes()[:-50])
    out = run_program(tmp_path, "ray_embed.py", *python)
    assert f"{count} are done, {3001 - count} to do" in out
    assert {file: file.stat().st_mtime_ns for file in whole} == whole
    found = written_by_ray(folder)
    bad = found.pop("photos/bad.png")
    assert np.isnan(bad["embedding"]).all()
    assert bad["error"]
    names = sorted(path.relative_to(tmp_path) for path in (tmp_path / "photos").rglob("*/*.png"))
    embeddings = np.array([found.pop(str(name))["embedding"] for name in names])
    assert not found
    expected = Recognizer.load(made / "model.onnx").embed([tmp_path / name for name in names])
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    assert "3001 are done, 0 to do" in run_program(tmp_path, "ray_embed.py", *python)
