"""Old and new identities before and after, beside a search by others."""

import json
import shutil

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from arcset import OptionError, RunError
from arcset.data import to_tensors
from arcset.runs import Run, RunConfig
from arcset.runs.data import selection_of
from arcset.runs.model import embed, load_model
from arcset.training import forgetting as module
from arcset.training import train
from arcset.training.forgetting import forgetting, read_forgetting, shown
from support.small_data import images

KNOWN = ",".join(f"c{number:02d}" for number in range(14))
SETTINGS = {"dim": 3, "network": "glyph", "epochs": 1, "batch": 32, "snapshot": 0, "scale": 8.0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Run, Run]:
    """14 identities, then 20, of 24; noisy ones, so that not all are found."""
    place = tmp_path_factory.mktemp("runs")
    data = str(images(place / "a.npz", classes=24, each=20, noise=150))
    config = RunConfig(data=data, classes=KNOWN, learning_rate=0.1, **SETTINGS)
    old = train(config, place / "old", device="cpu")
    more = ",".join(f"c{number:02d}" for number in range(20))
    # So fast that much is forgotten.
    config = config.replace(classes=more, start=str(old.path), learning_rate=1.0)
    return old, train(config, place / "new", device="cpu")


@pytest.fixture(scope="module")
def found(runs):
    return forgetting(runs[1], device="cpu")


def nearest(run: Run, part, names: set[str]) -> float:
    """Share of the images of `names` whose nearest other one of them is of their identity."""
    pixels, labels = to_tensors(part)
    chosen = [row for row, label in enumerate(labels) if part.class_names[label] in names]
    rows = torch.nn.functional.normalize(embed(load_model(run)[0], pixels[chosen]).double())
    search = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(rows)
    beside = search.kneighbors(return_distance=False, n_neighbors=1)[:, 0]
    own = labels[chosen].numpy()
    return float((own[beside] == own).mean())


def test_recall_is_that_of_a_search_by_others(runs, found) -> None:
    old, new = runs
    selection = selection_of(new)
    names = [f"c{number:02d}" for number in range(24)]
    groups = {"old": names[:14], "new": names[14:20], "known": names[:20], "unseen": names[20:]}
    rows = {row.group: row for row in found.rows if row.measure == "recall@1"}
    assert set(rows) == set(groups)
    for group, row in rows.items():
        part = selection.unseen if group == "unseen" else selection.test
        assert row.before == pytest.approx(nearest(old, part, set(groups[group])))
        assert row.after == pytest.approx(nearest(new, part, set(groups[group])))
        assert row.change is not None
        assert row.change.gain == pytest.approx(row.after - row.before)
        if group == "unseen":
            assert row.sentence().endswith("and 4 identities are too few to tell")
            assert row.json()["interval"] == [None, None]
            continue
        low, high = row.change.interval
        assert low <= row.change.gain <= high
    assert rows["old"].after != rows["old"].before
    assert found.sizes == {"old": (14, 56), "new": (6, 24), "known": (20, 80), "unseen": (4, 80)}


def test_tar_is_that_of_all_pairs_at_a_threshold(runs, found) -> None:
    old, new = runs
    part = selection_of(new).test
    pixels, labels = to_tensors(part)
    row = next(row for row in found.rows if row.group == "known" and row.measure != "recall@1")
    first, second = np.triu_indices(len(labels), 1)
    same = (labels[first] == labels[second]).numpy()
    for run, value in ((old, row.before), (new, row.after)):
        rows = torch.nn.functional.normalize(embed(load_model(run)[0], pixels).double()).numpy()
        cosines = (rows[first] * rows[second]).sum(axis=1)
        allowed = int(1e-3 * (~same).sum())
        threshold = np.sort(cosines[~same])[::-1][allowed]
        assert value == pytest.approx((cosines[same] > threshold).mean())


def test_it_is_written_and_shown(runs, found) -> None:
    _, new = runs
    assert read_forgetting(new) is None
    found.save(new)
    content = read_forgetting(new)
    assert content == json.loads(json.dumps(found.json()))
    assert content["before"] == "old"
    assert content["epoch"] == 1
    rows = shown(content)[1:]
    assert len(rows) == 8
    assert rows[0][:2] == ["old (14)", "recall@1"]
    assert rows[0][2] == f"{100 * found.rows[0].before:.2f} %"
    (new.path / "forgetting.json").write_text("{")
    with pytest.raises(RunError, match=r"forgetting\.json"):
        read_forgetting(new)
    (new.path / "forgetting.json").unlink()


def test_where_no_image_was_kept_it_says_so(runs, tmp_path) -> None:
    old, _ = runs
    config = old.config.replace(start=str(old.path), train_on="all")
    rows = forgetting(train(config, tmp_path / "new", device="cpu"), device="cpu").rows
    assert [row.why for row in rows if row.group == "old"] == [
        "no image of them was kept from training"
    ] * 2
    assert rows[0].sentence() == rows[0].why
    assert rows[0].json()["before"] is None


def test_nobody_new_is_too_few(runs, tmp_path) -> None:
    old, _ = runs
    new = train(old.config.replace(start=str(old.path)), tmp_path / "new", device="cpu")
    found = forgetting(new, device="cpu", intervals=False)
    assert {row.why for row in found.rows if row.group == "new"} == {
        "too few images: 0 of 0 identities"
    }
    assert "known" not in found.sizes
    assert found.rows[0].sentence().endswith(" points")


def test_images_that_the_old_run_knew_are_told(runs, tmp_path) -> None:
    old, new = runs
    shutil.copytree(old.path, tmp_path / "all")
    old.config.replace(train_on="all").save(tmp_path / "all" / "config.toml")
    found = forgetting(new, Run.open(tmp_path / "all"), device="cpu", intervals=False)
    assert found.note.startswith("all was trained on these images of the old identities as well")


@pytest.mark.long
def test_of_very_many_images_whole_identities_are_taken(runs, monkeypatch) -> None:
    """It goes with the report of its own: as rows of an evaluation all images count."""
    monkeypatch.setattr(module, "_MOST", 30)
    few = forgetting(runs[1], device="cpu", intervals=False)
    assert few.sizes == {"old": (7, 28), "new": (6, 24), "known": (7, 28), "unseen": (2, 40)}


def test_a_run_that_began_from_none(runs) -> None:
    with pytest.raises(OptionError, match=str(runs[0].path)):
        forgetting(runs[0], device="cpu")
