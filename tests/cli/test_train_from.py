"""`arcset train DATA --from RUN`, from one run to the next."""

import json
import shutil

import pytest

from arcset.data import Split
from arcset.runs import Run, RunConfig
from arcset.training import train
from support.small_data import images


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """24 identities, of which 4 are held out; and a file with 12 more."""
    place = tmp_path_factory.mktemp("old")
    images(place / "more.npz", classes=36, each=10)
    config = RunConfig(
        data=str(images(place / "few.npz", classes=24, each=10)), dim=4, network="glyph", epochs=4,
        batch=32, learning_rate=0.1, scale=8.0, margin=0.3, snapshot=8, augment=["affine"],
        hold_out={"validation": 0.09, "test": 0.09}, patience=3,
    )  # fmt: skip
    return train(config, place / "run", device="cpu")


def test_it_grows_tells_and_goes_on_without_the_old(arcset_command, old, tmp_path) -> None:
    shutil.copytree(old.path, tmp_path / "old")
    (tmp_path / "map.json").write_text('{"c30": "c31", "c35": null}')
    known = set(old.config.class_names)
    done = arcset_command(
        "train", old.path.parent / "more.npz", "--from", "old", "--out", "new", "--mapping",
        "map.json", "--set", "freeze=2", "--device", "cpu", "--json", "--no-report",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "20 identities" in done.err
    run = Run.open("new")
    config, before = run.config, old.config
    for name in ("network", "dim", "loss", "scale", "margin", "augment", "batch", "patience"):
        assert getattr(config, name) == getattr(before, name), name
    assert (config.epochs, config.margin_warm_up, config.freeze) == (1, 0.0, 2)
    assert config.learning_rate == pytest.approx(0.02)
    assert config.start == str(tmp_path / "old")
    split, earlier = Split.load(run.split_file), Split.load(old.split_file)
    assert known <= set(split.train)
    assert set(earlier.test) <= set(split.test)
    assert set(earlier.validation) <= set(split.validation)
    assert not {"c30", "c35"} & {*split.train, *split.validation, *split.test}
    forgetting = json.loads(done.out)["forgetting"]
    assert [row["group"] for row in forgetting] == ["old", "new"]
    assert forgetting[0]["identities"] == 20
    (tmp_path / "map.json").unlink()
    again = arcset_command("train", "--resume", "new", "--device", "cpu", "--no-report")
    assert again.code == 0, again.err
    table = " ".join(again.out.split())
    for row in forgetting:
        for quoted in (row["group"], *(f"{100 * row[when]:.2f} %" for when in ("before", "after"))):
            assert quoted in table
    shutil.rmtree(tmp_path / "old")
    longer = arcset_command(
        "train", "--resume", "new", "--epochs", "2", "--device", "cpu", "--no-report"
    )
    assert longer.code == 0, longer.err
    assert str(tmp_path / "old") in longer.err
    judged = arcset_command("evaluate", "new", "--device", "cpu", "--no-report")
    assert judged.code == 0, judged.err
