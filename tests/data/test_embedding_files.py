import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from arcset.data.embeddings import EmbeddingSet, read_embeddings, write_embeddings
from arcset.errors import DataError, OptionError


def some(paths=True):
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    return EmbeddingSet.of(
        rows, ["b", "a", "b", "é/c", "a"], [f"{i}.png" for i in range(5)] if paths else None
    )


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
@pytest.mark.parametrize("paths", [True, False])
def test_round_trip(tmp_path, suffix, paths):
    wrote = some(paths)
    write_embeddings(tmp_path / f"e.{suffix}", wrote)
    read = read_embeddings(tmp_path / f"e.{suffix}")
    np.testing.assert_array_equal(read.embeddings, wrote.embeddings)
    assert read.embeddings.dtype == np.float32
    assert (read.class_names, read.paths) == (wrote.class_names, wrote.paths)
    assert read.labels.tolist() == [1, 0, 1, 2, 0]
    assert [path.name for path in tmp_path.iterdir()] == [f"e.{suffix}"]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"label": ["a", "b"], "embedding": [[1.0], [1.0, 2.0]]}, "embedding"),
        ({"label": ["a", "b"], "embedding": [[1.0], [1.0, 2.0, 3.0]]}, "embedding"),
        ({"label": ["a", None], "embedding": [[1.0], [1.0]]}, "label for sample 1"),
        ({"label": ["a", "b"], "vector": [[1.0], [1.0]]}, "label, vector"),
        ({"label": ["a", "b"], "embedding": [1.0, 1.0]}, "shape"),
    ],
)
def test_parquet_that_does_not_fit(tmp_path, column, text):
    parquet.write_table(pyarrow.table(column), tmp_path / "o.parquet")
    with pytest.raises(DataError, match=text):
        read_embeddings(tmp_path / "o.parquet")


def test_npz_that_does_not_fit(tmp_path):
    place = tmp_path / "o.npz"
    with pytest.raises(DataError, match=r"o\.npz"):
        read_embeddings(place)
    place.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(DataError, match=r"o\.npz"):
        read_embeddings(place)
    np.savez(place, embeddings=np.eye(2), labels=np.array(["a", None], dtype=object))
    with pytest.raises(DataError, match=r"o\.npz"):  # a pickle, which is never opened
        read_embeddings(place)
    np.savez(place, embeddings=np.eye(2), labels=np.array([0.5, 1.0]))
    with pytest.raises(DataError, match="label"):
        read_embeddings(place)
    np.savez(place, embeddings=np.eye(2), labels=np.arange(3))
    with pytest.raises(DataError, match=r"label .*\(3,\).* 2 "):
        read_embeddings(place)
    (tmp_path / "o.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"o\.parquet"):
        read_embeddings(tmp_path / "o.parquet")
    with pytest.raises(OptionError, match=r"o\.csv"):
        read_embeddings(tmp_path / "o.csv")


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_what_was_trained_on_goes_with_the_file(tmp_path, suffix):
    wrote = EmbeddingSet.of(np.eye(2, dtype=np.float32), ["a", "b"], trained_on=["a", "é"])
    write_embeddings(tmp_path / f"e.{suffix}", wrote)
    assert read_embeddings(tmp_path / f"e.{suffix}").trained_on == ("a", "é")
    assert wrote.keep(["b"]).trained_on == ("a", "é")
