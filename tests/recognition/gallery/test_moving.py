"""To Parquet files and back, and to another model."""

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

from arcset.errors import DataError, OptionError
from arcset.recognition.gallery import Gallery
from arcset.recognition.gallery.file_gallery import FileGallery
from support.galleries import NAMES, Place, Projection, bytes_of, unit


def content(gallery):
    """All that a gallery knows, by the number of the sample."""
    found = {}
    for subject in gallery.subjects():
        for sample in gallery.samples(subject.name):
            found[sample.id] = (subject.name, sample, gallery.image(sample.id))
    rows = dict(zip(sorted(found), gallery.labelled()[0], strict=True))
    return {number: (*told, rows[number].tobytes()) for number, told in found.items()}


def pixels(seed):
    return np.random.default_rng(seed).integers(0, 256, (8, 8), dtype=np.uint8)


@pytest.fixture
def filled(tmp_path):
    """A gallery with gaps, of images kept and not, and one of every kind of name."""
    with Gallery.open(tmp_path / "g.db", Projection(), keep_images=True) as gallery:
        fill(gallery)
        yield gallery


def fill(gallery):
    gallery.enroll('Ünï "o\'" 漢字', [pixels(1), pixels(2)])
    gallery.enroll("gone", pixels(3))
    gallery.enroll("b", pixels(4), sources=["a/b.png"])
    gallery.enroll("without", embeddings=unit(1, 16))
    gallery.remove("gone")


@pytest.fixture(params=["file", "milvus"])
def target(request, tmp_path):
    """Where to move to."""
    folder = tmp_path if request.param == "file" else request.getfixturevalue("lite")
    made = Place(request.param, folder)
    yield made
    made.clear()


@pytest.fixture
def plain(place):
    """As `filled`, of both kinds, and without images."""
    with Gallery.open(place("plain"), Projection()) as gallery:
        fill(gallery)
        yield gallery


def test_there_and_back(tmp_path, plain, target):
    """From each kind to each."""
    before = content(plain)
    assert plain.export(tmp_path / "g.parquet") == 4
    with Gallery.open(target("copy"), Projection()) as copy:
        assert copy.import_file(tmp_path / "g.parquet") == (1, 2, 4, 5)
        assert content(copy) == before
        check(copy)
        assert copy.enroll("next", pixels(9)) == (6,)
        copy.remove("next")
        assert copy.export(tmp_path / "again.parquet") == 4
    tables = [parquet.read_table(tmp_path / name) for name in ("g.parquet", "again.parquet")]
    assert tables[0].equals(tables[1])
    with Gallery.open(target("copy")) as copy:
        assert content(copy) == before


def test_images_there_and_back(tmp_path, filled):
    before = content(filled)
    assert filled.export(tmp_path / "g.parquet") == 4
    with Gallery.open(tmp_path / "copy.db", Projection()) as copy:
        copy.import_file(tmp_path / "g.parquet")
        assert content(copy) == before


def test_images_do_not_come_along_to_milvus(tmp_path, filled, lite):
    target = Place("milvus", lite)
    filled.export(tmp_path / "g.parquet")
    with Gallery.open(target("g"), Projection()) as copy:
        with pytest.raises(OptionError, match=r"g\.parquet holds images.* export it without them"):
            copy.import_file(tmp_path / "g.parquet")
        assert (len(copy), copy.sample_count) == (0, 0)
        filled.export(tmp_path / "g.parquet", images=False)
        assert copy.import_file(tmp_path / "g.parquet") == (1, 2, 4, 5)
        assert np.array_equal(copy.labelled()[0], filled.labelled()[0])
        with pytest.raises(OptionError, match="keeps no images to embed anew"):
            copy.migrate(Projection(seed=1))
    target.clear()


def test_into_a_gallery_that_has_some(tmp_path, plain, target):
    plain.export(tmp_path / "g.parquet")
    with Gallery.open(target("other"), Projection()) as other:
        other.enroll("b", [pixels(7), pixels(8)])
        assert other.import_file(tmp_path / "g.parquet") == (3, 4, 5, 6)
        assert {one.name: one.samples for one in other.subjects()} == {
            'Ünï "o\'" 漢字': 2,
            "b": 3,
            "without": 1,
        }
        check(other)


def check(gallery):
    if isinstance(gallery, FileGallery):
        gallery._store.check_equal()


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


def test_every_name_and_embedding_comes_back(tmp_path_factory, place):
    @given(
        names=st.lists(NAMES, min_size=1, max_size=6),
        seed=st.integers(0, 999),
        dim=st.sampled_from([1, 3, 33]),
    )
    @settings(max_examples=6 if place.kind == "file" else 3)
    def check_one(names, seed, dim):
        folder = tmp_path_factory.mktemp("g")
        with Gallery.open(place.anew(), dim=dim) as gallery:
            gallery.enroll_many(names, embeddings=unit(len(names), dim, seed))
            gallery.export(folder / "g.parquet")
            with Gallery.open(place.anew(), dim=dim) as copy:
                copy.import_file(folder / "g.parquet")
                assert content(copy) == content(gallery)

    check_one()


def test_another_models_embeddings_are_not_mixed_in(tmp_path, place, plain):
    plain.export(tmp_path / "g.parquet")
    with Gallery.open(place("new"), dim=16) as empty:  # takes the model of the file
        empty.import_file(tmp_path / "g.parquet")
        assert empty.model_digest == Projection().digest
        assert empty.model_name == "projection-0"
    other = Projection(seed=1)
    with Gallery.open(place("other"), other) as gallery:
        text = r"of the model 'projection-0' .* 'projection-1'"
        with pytest.raises(OptionError, match=text):
            gallery.import_file(tmp_path / "g.parquet")
    with Gallery.open(place("unknown"), dim=16) as gallery:
        gallery.enroll("a", embeddings=unit(1, 16))
        with pytest.raises(OptionError, match="of no known model"):
            gallery.import_file(tmp_path / "g.parquet")
    with Gallery.open(place("small"), dim=3) as gallery:
        text = r"of 16 numbers, and .* of 3"
        with pytest.raises(OptionError, match=text):
            gallery.import_file(tmp_path / "g.parquet")


def rewritten(path, **columns):
    table = parquet.read_table(path)
    for name, values in columns.items():
        place = table.column_names.index(name)
        if values is None:
            table = table.remove_column(place)
        else:
            kind = table.schema.field(name).type if name != "embedding" else None
            table = table.set_column(place, name, pyarrow.array(values, kind))
    parquet.write_table(table, path)


BAD = {
    "no column": ({"name": None}, "lacks the column 'name'"),
    "a name that is none": ({"name": ["a", "b", "c\n", "d"]}, "control characters"),
    "no name": ({"name": ["a", "b", None, "d"]}, "'name' has gaps"),
    "zeros": ({"embedding": [[0.0] * 16] * 4}, "all zero"),
    "NaN": ({"embedding": [[float("nan")] * 16] * 4}, "nan in row 0"),
    "too few": ({"embedding": [[1.0] * 15] * 4}, "16 numbers"),
    "uneven": ({"embedding": [[1.0] * 15, [1.0] * 17, [1.0] * 16, [1.0] * 16]}, "16 numbers"),
    "numbers that fall": ({"id": [4, 3, 2, 1]}, "do not rise"),
    "a huge number": ({"id": [1, 2, 3, 2**60]}, "do not rise"),
    "no number": ({"id": [1, None, 3, 4]}, "'id' has gaps"),
    "no time": ({"added": [None] * 4}, "'added' has gaps"),
    "a digest of words": ({"digest": ["words"] * 4}, "Parquet"),
}


@pytest.mark.parametrize("what", BAD)
def test_files_that_do_not_fit(tmp_path, place, filled, what):
    columns, text = BAD[what]
    filled.export(tmp_path / "g.parquet", images=place.kind == "file")
    rewritten(tmp_path / "g.parquet", **columns)
    with Gallery.open(place("other"), Projection()) as other:
        with pytest.raises(DataError, match=text) as caught:
            other.import_file(tmp_path / "g.parquet")
        assert "g.parquet" in str(caught.value)
        assert len(other) == 0
        assert other.enroll("anna", pixels(1)) == (1,)


def test_files_that_are_none(tmp_path, filled):
    filled.export(tmp_path / "g.parquet")
    whole = (tmp_path / "g.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "foreign.parquet")
    before = content(filled)
    for name, text in {
        "missing": "does not exist",
        "cut": "not a readable Parquet",
        "foreign": "was not written by",
    }.items():
        with pytest.raises(DataError, match=text):
            filled.import_file(tmp_path / f"{name}.parquet")
    with pytest.raises(OptionError, match=r"does not end in \.parquet"):
        filled.export(tmp_path / "g.csv")
    with pytest.raises(DataError, match="cannot be written"):
        filled.export(tmp_path / "g.db" / "x.parquet")
    assert content(filled) == before


def test_damage_in_the_middle_leaves_nothing(tmp_path, filled, monkeypatch):
    monkeypatch.setattr("arcset.recognition.gallery.parquet_files._BATCH_WITH_IMAGES", 1)
    filled.export(tmp_path / "g.parquet")
    rewritten(tmp_path / "g.parquet", name=["new", "b", "c", "d\n"])
    before = content(filled)
    with pytest.raises(DataError, match="control characters"):
        filled.import_file(tmp_path / "g.parquet")
    assert content(filled) == before
    filled.enroll("new", pixels(20))
    assert len(filled.samples("new")) == 1
    filled._store.check_equal()


@pytest.mark.parametrize("dim", [16, 9, 40])
def test_to_another_model(tmp_path, dim):
    old, new = Projection(), Projection(dim=dim, seed=1)
    path, told = tmp_path / "g.db", []
    with Gallery.open(path, old, keep_images=True) as gallery:
        for number in range(7):
            gallery.enroll(f"subject {number}", [pixels(number), pixels(100 + number)])
        gallery.remove("subject 3")
        gallery.set_model_path("/old")
        rows, names = gallery.labelled()
        gallery.migrate(new, progress=lambda done, total: told.append((done, total)))
        assert told == [(12, 12)]
        assert (gallery.dim, gallery.model_name, gallery.model_path) == (dim, new.name, None)
        assert gallery.labelled()[1] == names
        assert gallery.identify(pixels(104), threshold=0.999).subject == "subject 4"
        assert gallery.enroll("more", pixels(50)) == (15,)
        assert not any(row.tobytes() in bytes_of(path) for row in rows)
        gallery._store.check_equal()
    with Gallery.open(path, new) as gallery:
        assert gallery.identify(pixels(5), threshold=0.999).subject == "subject 5"
    with pytest.raises(OptionError, match=r"'projection-1' .* not to the model 'projection-0'"):
        Gallery.open(path, old)


def test_all_samples_move_or_none(tmp_path, filled):
    before = content(filled)
    with pytest.raises(OptionError, match=r"1 of 4 samples in .* have no image"):
        filled.migrate(Projection(seed=1))
    filled.remove("without")
    filled.enroll("bad", [b"no image"], embeddings=unit(1, 16))
    with pytest.raises(DataError, match="projection-1 cannot embed the image of sample 6"):
        filled.migrate(Projection(seed=1, dim=5))
    filled.remove("bad")
    assert content(filled) == {number: before[number] for number in (1, 2, 4)}
    assert filled.identify(Image.fromarray(pixels(4)), threshold=0.999).subject == "b"
    filled._store.check_equal()
