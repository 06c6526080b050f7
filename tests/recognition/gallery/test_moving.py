"""To Parquet files and back, and to another model."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from arcset import DataError, Gallery, OptionError
from support.galleries import Projection, bytes_of, check_kept, picture, unit


def content(gallery):
    """All that a gallery knows of each sample but its number, as they were enrolled."""
    samples = {}
    for subject in gallery.subjects():
        for sample in gallery.samples(subject.name):
            samples[sample.id] = (subject.name, replace(sample, id=0), gallery.image(sample.id))
    rows = gallery.labelled()[0]
    return [
        (*samples[number], row.tobytes()) for number, row in zip(sorted(samples), rows, strict=True)
    ]


@pytest.fixture
def filled(tmp_path):
    """A gallery with gaps, of images kept and not, and one of every kind of name."""
    with Gallery.open(tmp_path / "g.db", Projection(), keep_images=True) as gallery:
        fill(gallery)
        yield gallery


def fill(gallery):
    gallery.enroll('Ünï "o\'" 漢字', [picture(1), picture(2)])
    gallery.enroll("gone", picture(3))
    gallery.enroll("b", picture(4), sources=["a/b.png"])
    gallery.enroll("without", embeddings=unit(1, 16))
    gallery.remove("gone")


@pytest.fixture
def plain(location):
    """As `filled`, of both kinds, and without images."""
    with Gallery.open(location("plain"), Projection()) as gallery:
        fill(gallery)
        yield gallery


@pytest.mark.parametrize("target", ["file", pytest.param("lite", marks=pytest.mark.long)])
def test_there_and_back(tmp_path, plain, make_location, target):
    """From each kind to each, to the last bit."""
    copied = make_location(target)("copy")
    before = content(plain)
    assert plain.export(tmp_path / "g.parquet") == 4
    with Gallery.open(copied, Projection()) as copy:
        assert len(copy.import_file(tmp_path / "g.parquet")) == 4
        assert content(copy) == before
        check_kept(copy)
        copy.enroll("next", picture(9))
        copy.remove("next")
        before_again = copy.enroll("b", [picture(7), picture(8)])
        assert len({*before_again, *copy.import_file(tmp_path / "g.parquet")}) == 6
    with Gallery.open(copied) as copy:
        assert content(copy)[:4] == before
        assert {one.name: one.samples for one in copy.subjects()} == {
            'Ünï "o\'" 漢字': 4,
            "b": 4,
            "without": 2,
        }


def test_images_there_and_back(tmp_path, filled):
    before = content(filled)
    assert filled.export(tmp_path / "g.parquet") == 4
    with Gallery.open(tmp_path / "copy.db", Projection()) as copy:
        copy.import_file(tmp_path / "g.parquet")
        assert content(copy) == before


def test_images_do_not_come_along_to_milvus(tmp_path, filled, milvus):
    filled.export(tmp_path / "g.parquet")
    with Gallery.open(milvus("g"), Projection()) as copy:
        with pytest.raises(OptionError, match=r"g\.parquet"):
            copy.import_file(tmp_path / "g.parquet")
        assert (len(copy), copy.sample_count) == (0, 0)
        filled.export(tmp_path / "g.parquet", images=False)
        assert len(copy.import_file(tmp_path / "g.parquet")) == 4
        assert np.array_equal(copy.labelled()[0], filled.labelled()[0])
        with pytest.raises(OptionError, match="milvus"):
            copy.migrate(Projection(seed=1))


def test_what_other_tools_see(tmp_path, filled):
    filled.export(tmp_path / "g.parquet")
    table = parquet.read_table(tmp_path / "g.parquet")
    assert table.column_names == [
        "name", "id", "embedding", "source", "digest", "added", "image"
    ]  # fmt: skip
    assert table["name"].to_pylist()[2:] == ["b", "without"]
    assert table["source"].to_pylist() == [None, None, "a/b.png", None]
    assert np.allclose(np.stack(table["embedding"].to_numpy()), filled.labelled()[0])
    assert [image is not None for image in table["image"].to_pylist()] == [True] * 3 + [False]
    assert table["digest"].to_pylist()[3] is None
    assert table["added"].to_pylist()[2] == filled.samples("b")[0].added


def test_another_models_embeddings_are_not_mixed_in(tmp_path, location, plain):
    plain.export(tmp_path / "g.parquet")
    shutil.copy(tmp_path / "g.parquet", tmp_path / "bad.parquet")
    rewritten(tmp_path / "bad.parquet", name=["a", "b", "c", "d\n"])
    with Gallery.open(location("new"), dim=16) as empty:  # takes the model of the file
        with pytest.raises(DataError, match=r"bad\.parquet"):
            empty.import_file(tmp_path / "bad.parquet")
        assert (len(empty), empty.model_digest) == (0, "")
        empty.import_file(tmp_path / "g.parquet")
        assert empty.model_digest == Projection().digest
        assert empty.model_name == "projection-0"
    other = Projection(seed=1)
    with (
        Gallery.open(location("other"), other) as gallery,
        pytest.raises(OptionError, match=r"g\.parquet.*'projection-0'.*'projection-1'"),
    ):
        gallery.import_file(tmp_path / "g.parquet")
    with Gallery.open(location("unknown"), dim=16) as gallery:
        gallery.enroll("a", embeddings=unit(1, 16))
        with pytest.raises(OptionError, match=r"g\.parquet"):
            gallery.import_file(tmp_path / "g.parquet")
    with (
        Gallery.open(location("small"), dim=3) as gallery,
        pytest.raises(OptionError, match=r"g\.parquet.* 16 .* 3\b"),
    ):
        gallery.import_file(tmp_path / "g.parquet")


def rewritten(path, **columns):
    table = parquet.read_table(path)
    for name, values in columns.items():
        number = table.column_names.index(name)
        if values is None:
            table = table.remove_column(number)
        else:
            if isinstance(values, list) and name != "embedding":
                values = pyarrow.array(values, table.schema.field(name).type)
            table = table.set_column(number, name, pyarrow.array(values))
    parquet.write_table(table, path)


#: Columns that no export has, and what the error quotes.
BAD = [
    ({"name": None}, "name"),
    ({"name": ["a", "b", "c\n", "d"]}, r"'c\\n'"),
    ({"name": ["a", "b", None, "d"]}, "a sample lacks its name"),
    ({"embedding": [[0.0] * 16] * 4}, "row 0"),
    ({"embedding": [[float("nan")] * 16] * 4}, "nan.* 0"),
    ({"embedding": [[1.0] * 15] * 4}, "16"),
    ({"embedding": [[1.0] * 16, None, [1.0] * 16, [1.0] * 16]}, "a sample lacks"),
    ({"embedding": [[1.0] * 15, [1.0] * 17, [1.0] * 16, [1.0] * 16]}, "16"),
    ({"added": [None] * 4}, "a sample lacks"),
    ({"digest": ["words"] * 4}, ""),
    ({"name": pyarrow.array([{"x": 1}] * 4)}, "struct"),
    ({"name": pyarrow.array([b"\xff"] * 4).view(pyarrow.string())}, ""),
    ({"added": pyarrow.array([2**62] * 4, pyarrow.timestamp("us"))}, ""),
    ({"source": pyarrow.array([["a"]] * 4)}, ""),
]


def test_files_that_do_not_fit(tmp_path, location, filled):
    filled.export(tmp_path / "whole.parquet", images=location.kind == "file")
    with Gallery.open(location("other"), Projection()) as other:
        for columns, quoted in BAD:
            shutil.copy(tmp_path / "whole.parquet", tmp_path / "g.parquet")
            rewritten(tmp_path / "g.parquet", **columns)
            with pytest.raises(DataError, match=rf"g\.parquet.*{quoted}"):
                other.import_file(tmp_path / "g.parquet")
            assert len(other) == 0
        assert len(other.enroll("anna", picture(1))) == 1


def test_files_that_are_none(tmp_path, filled):
    filled.export(tmp_path / "g.parquet")
    whole = (tmp_path / "g.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "foreign.parquet")
    before = content(filled)
    for name in ("missing.parquet", "cut.parquet", "foreign.parquet"):
        with pytest.raises(DataError, match=name):
            filled.import_file(tmp_path / name)
    with pytest.raises(OptionError, match=r"g\.csv"):
        filled.export(tmp_path / "g.csv")
    with pytest.raises(DataError, match=r"x\.parquet"):
        filled.export(tmp_path / "g.db" / "x.parquet")
    assert content(filled) == before


@pytest.mark.parametrize("kind", ["file", "lite"])
def test_damage_after_thousands_of_rows_leaves_nothing(tmp_path, make_location, kind):
    names = [f"{number // 2}" for number in range(5000)]
    with Gallery.open(tmp_path / "g.db", dim=2) as gallery:
        gallery.enroll_many(names, embeddings=unit(5000, 2))
        gallery.export(tmp_path / "g.parquet", images=False)
    shutil.copy(tmp_path / "g.parquet", tmp_path / "bad.parquet")
    rewritten(tmp_path / "bad.parquet", name=[*names[:-1], "d\n"])
    with Gallery.open(make_location(kind)("other"), dim=2) as other:
        other.enroll("anna", embeddings=unit(1, 2))
        before = content(other)
        with pytest.raises(DataError, match=r"bad\.parquet.*'d\\n'"):
            other.import_file(tmp_path / "bad.parquet")
        assert content(other) == before
        assert (len(other), other.sample_count) == (1, 1)
        assert len(other.import_file(tmp_path / "g.parquet")) == 5000
        assert (len(other), other.sample_count) == (2501, 5001)


def test_to_another_model(tmp_path):
    old, new = Projection(), Projection(dim=9, seed=1)
    new.origin = Path("/models/new"), "none"
    path, told = tmp_path / "g.db", []
    with Gallery.open(path, old, keep_images=True) as gallery:
        for number in range(7):
            gallery.enroll(f"subject {number}", [picture(number), picture(100 + number)])
        gallery.remove("subject 3")
        rows, names = gallery.labelled()
        gallery.migrate(new, progress=lambda done, total: told.append((done, total)))
        assert told == [(12, 12)]
        assert (gallery.dim, gallery.model_name) == (9, new.name)
        assert (gallery.model_path, gallery.faces) == ("/models/new", "none")
        assert gallery.labelled()[1] == names
        assert gallery.identify(picture(104), threshold=0.999).subject == "subject 4"
        assert not any(row.tobytes() in bytes_of(path) for row in rows)
        check_kept(gallery)
    with Gallery.open(path, new) as gallery:
        assert gallery.identify(picture(5), threshold=0.999).subject == "subject 5"
    with pytest.raises(OptionError, match=r"'projection-1'.*'projection-0'"):
        Gallery.open(path, old)


def test_all_samples_move_or_none(tmp_path, filled):
    before = content(filled)
    with pytest.raises(OptionError, match=r"1 of 4 .*g\.db"):  # one has no image
        filled.migrate(Projection(seed=1))
    filled.remove("without")
    (bad,) = filled.enroll("bad", [b"no image"], embeddings=unit(1, 16))
    with pytest.raises(DataError, match=f"projection-1.* {bad}\\b"):
        filled.migrate(Projection(seed=1, dim=5))
    filled.remove("bad")
    assert content(filled) == before[:3]
    assert filled.identify(picture(4), threshold=0.999).subject == "b"
    check_kept(filled)
