from pathlib import Path

import pytest

from arcset.data import download_dataset, load_dataset, locate, select
from arcset.errors import DataError


def make(folder: Path) -> None:
    """Pictures of one grey each: person × 6 + picture."""
    for person in range(1, 41):
        (folder / f"s{person}").mkdir(parents=True)
        for picture in range(1, 11):
            pixels = bytes([6 * person + picture]) * (112 * 92)
            (folder / f"s{person}" / f"{picture}.pgm").write_bytes(b"P5\n92 112\n255\n" + pixels)


def test_people_in_order_and_the_last_two_pictures_for_testing(cache: Path) -> None:
    make(cache / "orl")
    (cache / "orl" / "README").write_text("as in the public archive")
    assert locate("orl") == download_dataset("orl") == str(cache / "orl")
    dataset = load_dataset("orl")
    assert dataset.class_names == tuple(f"s{person}" for person in range(1, 41))
    assert (dataset.train.images.shape, dataset.test.images.shape) == (
        (320, 112, 92),
        (80, 112, 92),
    )
    assert dataset.train.images[8 * 11, 0, :3].tolist() == [6 * 12 + 1] * 3
    assert dataset.test.images[2 * 11 : 2 * 12, 0, 0].tolist() == [6 * 12 + 9, 6 * 12 + 10]
    unseen = select(dataset, "s1,s2").unseen
    assert unseen is not None
    assert len(unseen) == 380  # all ten of everybody


def test_where_it_has_to_be_put(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = f"{cache / 'orl'}"
    assert places in locate("orl")
    monkeypatch.setenv("ARCSET_DATA", str(tmp_path / "mine"))
    places = f"{tmp_path / 'mine' / 'orl'} or {places}"
    for ask in (load_dataset, download_dataset):
        with pytest.raises(DataError) as caught:
            ask("orl")
        assert "s1/1.pgm … s40/10.pgm" in str(caught.value)
        assert places in str(caught.value)


def test_what_is_missing_or_wrong_is_named(cache: Path) -> None:
    make(cache / "orl")
    picture = cache / "orl" / "s7" / "3.pgm"
    picture.write_bytes(b"P5\n112 92\n255\n" + bytes(112 * 92))
    with pytest.raises(DataError, match=r"s7/3\.pgm .*92×112 .*112×92"):
        load_dataset("orl")
    picture.unlink()
    with pytest.raises(DataError, match=r"s7/3\.pgm"):
        load_dataset("orl")
