import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcset.data import select
from arcset.errors import DataError
from data.named.test_omniglot_archive import FILES, write
from support.datasets import OMNIGLOT, Archive, Omniglot


def small(mirror: Any) -> Omniglot:
    """Two small archives of three characters each."""
    return dataclasses.replace(
        OMNIGLOT,
        mirrors=(mirror.url,),
        background=Archive("images_background", 3, None),
        evaluation=Archive("images_evaluation", 3, None),
    )


def archives(folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    rename = {"Greek": "Mongolian", "Latin": "Tibetan", "background": "evaluation"}
    others = {}
    for name, content in FILES.items():
        for old, new in rename.items():
            name = name.replace(old, new)
        others[name] = content
    return (
        write(folder / "images_background.zip", FILES),
        write(folder / "images_evaluation.zip", others),
    )


def serve(mirror: Any, tmp_path: Path) -> Omniglot:
    for path in archives(tmp_path / "public"):
        mirror.serve(f"/{path.name}", path.read_bytes())
    return small(mirror)


def test_load_fetches_the_background_set(mirror: Any, cache: Path, tmp_path: Path) -> None:
    omniglot = serve(mirror, tmp_path)
    assert omniglot.locate() == f"not here: would be downloaded from {mirror.url}"
    dataset = omniglot.load()
    assert mirror.asked == ["/images_background.zip"]
    assert omniglot.locate() == str(cache / "omniglot")
    assert [path.name for path in (cache / "omniglot").iterdir()] == ["images_background.zip"]
    assert dataset.class_names == ("Greek/character01", "Greek/character02", "Latin/character01")
    assert (dataset.train.images.shape, dataset.test.images.shape) == ((48, 28, 28), (12, 28, 28))
    assert dataset.held_out == "all"
    omniglot.load()
    assert mirror.asked == ["/images_background.zip"]


def test_download_fetches_both(mirror: Any, cache: Path, tmp_path: Path) -> None:
    omniglot = serve(mirror, tmp_path)
    assert omniglot.download() == f"{cache / 'omniglot'}, with the evaluation set: 6 classes"
    dataset = omniglot.load()
    assert len(dataset.class_names) == 6
    assert dataset.class_names[3] == "Mongolian/character01"
    assert len(dataset.train) == 96
    omniglot.download()
    assert mirror.asked == ["/images_background.zip", "/images_evaluation.zip"]


def test_drawers_17_to_20_are_the_test(mirror: Any, cache: Path) -> None:
    archives(cache / "omniglot")
    dataset = small(mirror).load()
    drawn = small(mirror).background.read(cache / "omniglot" / "images_background.zip")
    for label, images in enumerate(drawn.values()):
        train, test = (part.images[part.labels == label] for part in (dataset.train, dataset.test))
        np.testing.assert_array_equal(train, images[:16])
        np.testing.assert_array_equal(test, images[16:])
    unseen = select(dataset, "Greek/character01,Greek/character02").unseen
    assert unseen is not None
    np.testing.assert_array_equal(unseen.images[:20], drawn["Latin/character01"])


def test_a_bad_download_leaves_nothing_behind(mirror: Any, cache: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.zip", {name: FILES[name] for name in list(FILES)[:20]})
    mirror.serve("/images_background.zip", bad.read_bytes())
    with pytest.raises(DataError) as caught:
        small(mirror).load()
    assert "1 characters in 20 drawings" in str(caught.value)
    assert list((cache / "omniglot").iterdir()) == []
