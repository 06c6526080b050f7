"""Settings on the command line: what a trained run's config.toml says in the end."""

from arcset.runs import Run
from support.small_data import images


def test_from_the_outside(arcset_command, tmp_path) -> None:
    place = images(tmp_path / "a.npz", classes=24, each=4, size=8)
    words = ["train", place, "--no-report", "--epochs", "1", "--dim", "4", "--device", "cpu"]
    done = arcset_command(*words, "--out", "a", "--loss", "softmax", "--scale", "3")
    assert done.code == 0
    config = Run.open(tmp_path / "a").config
    assert (config.network, config.dim, config.loss, config.scale) == ("glyph", 4, "softmax", None)
    assert config.hold_out == {"validation": 0.1, "test": 0.1}
    assert "--scale" in done.err
    done = arcset_command(*words, "--out", "b", "--hold-out", "none", "--augment", "none")
    assert done.code == 0
    assert "held out" in done.err
    config = Run.open(tmp_path / "b").config
    assert (config.hold_out, config.augment, len(config.class_names)) == (None, (), 24)
    for name, other in ("ac", "be"):
        again = arcset_command(
            "train", "--config", f"{name}/config.toml", "--out", other, "--no-report"
        )
        assert again.code == 0
        first, second = (Run.open(tmp_path / run).config for run in (name, other))
        assert first.class_names == second.class_names
        assert (first.network, first.augment) == (second.network, second.augment)
    (tmp_path / "own.toml").write_text(f'data = "{place}"\nepochs = 1\ndim = 6\n')
    done = arcset_command("train", "--config", "own.toml", "--out", "f", "--no-report")
    assert done.code == 0
    config = Run.open(tmp_path / "f").config
    assert (config.network, config.dim, config.epochs) == ("glyph", 6, 1)
    assert config.hold_out == {"validation": 0.1, "test": 0.1}
    wrong = arcset_command(*words, "--out", "d", "--hold-out", "half")
    assert wrong.code == 2
    assert "'half'" in wrong.err
    assert not (tmp_path / "d").exists()
