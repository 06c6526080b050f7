"""From the command line to a configuration: recipe < file < option < --set."""

import pytest

from arcset.cli.settings import absolute, chosen_config, is_own, parse_setting
from arcset.data import load_dataset
from arcset.errors import OptionError, RunError
from arcset.runs import Run, RunConfig
from arcset.training.recipes import own_settings, read_recipe, recipe_settings
from support.small_data import images, vectors


def test_recipe_then_file_then_option_then_set(tmp_path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("dim = 33\nbatch = 44\nepochs = 55\n")
    recipe = read_recipe("omniglot").settings
    given = {"data": "omniglot", "batch": 66, "epochs": 77}
    config = chosen_config(given, recipe="omniglot", file=file, settings=["epochs=88"])
    assert (config.network, config.dim, config.batch, config.epochs) == ("glyph", 33, 66, 88)
    assert config.hold_out == {
        part: tuple(patterns) for part, patterns in recipe["hold_out"].items()
    }
    assert (config.scale, config.margin) == (recipe["scale"], recipe["margin"])
    assert config.recipe == "omniglot"
    assert chosen_config({"data": "omniglot"}).recipe is None


@pytest.mark.parametrize("text", ["none", ""])
def test_none_takes_a_setting_of_the_recipe_away(text: str) -> None:
    off = {key: parse_setting(key, text) for key in ("hold_out", "augment")}
    for given, settings in (
        (off, []),
        ({}, [f"hold_out={text}", f"augment={text}"]),
    ):
        config = chosen_config({"data": "omniglot", **given}, recipe="omniglot", settings=settings)
        assert config.hold_out is None
        assert config.augment == ()
    assert chosen_config({"data": "omniglot"}, recipe="omniglot", settings=["scale="]).scale is None


@pytest.mark.parametrize("how", ["option", "set", "file"])
def test_another_loss_does_not_inherit_scale_and_margin(how: str, tmp_path) -> None:
    given, settings, file = {"data": "omniglot"}, [], None
    if how == "option":
        given["loss"] = "cosface"
    elif how == "set":
        settings = ["loss=cosface"]
    else:
        file = tmp_path / "some.toml"
        file.write_text('loss = "cosface"\n')
    config = chosen_config(given, recipe="omniglot", file=file, settings=settings)
    assert (config.loss, config.scale, config.margin) == ("cosface", None, None)
    assert config.network == "glyph"  # all else it does
    kept = chosen_config({**given, "scale": 9.0}, recipe="omniglot", file=file, settings=settings)
    assert kept.scale == 9.0


def test_the_same_loss_with_options_does() -> None:
    config = chosen_config({"data": "omniglot", "loss": "arcface:fallback=easy"}, recipe="omniglot")
    recipe = recipe_settings("omniglot", "omniglot")
    tuned = (recipe["scale"], recipe["margin"], {"fallback": "easy"})
    assert (config.scale, config.margin, config.options) == tuned


def test_a_file_and_the_loss_of_its_own(tmp_path) -> None:
    RunConfig(
        data="mnist", loss="arcface", scale=7.0, margin=0.2, options={"fallback": "easy"}
    ).save(tmp_path / "some.toml")
    same = chosen_config({"loss": "arcface"}, file=tmp_path / "some.toml")
    assert (same.scale, same.margin, same.options) == (7.0, 0.2, {"fallback": "easy"})
    other = chosen_config({"loss": "normface"}, file=tmp_path / "some.toml")
    assert (other.loss, other.scale, other.options) == ("normface", None, {})


def test_set_wins_over_what_the_loss_carries() -> None:
    given = {"data": "mnist", "loss": "arcface:margin=0.1:fallback=easy"}
    config = chosen_config(given, settings=["margin=0.2", "fallback=linear", "subcenters=2"])
    assert config.margin == 0.2
    assert config.options == {"fallback": "linear", "subcenters": 2}
    assert chosen_config(given).margin == 0.1


@pytest.mark.parametrize("key", ["classes", "split"])
def test_whom_to_hold_out_is_said_once(key: str, tmp_path) -> None:
    named = {"classes": "a,b", "split": "some.json"}[key]
    for given, settings in (({key: named}, []), ({}, [f"{key}={named}"])):
        config = chosen_config({"data": "omniglot", **given}, recipe="omniglot", settings=settings)
        assert getattr(config, key) == named
        assert config.hold_out is None
    file = tmp_path / "some.toml"
    RunConfig(data="mnist", **{key: named}).save(file)
    config = chosen_config({"hold_out": {"test": 0.5}}, file=file)
    assert config.hold_out == {"test": 0.5}
    assert (config.classes, config.split) == (None, None)


def test_a_run_s_own_copy_of_its_split_is_used(tmp_path) -> None:
    file = tmp_path / "config.toml"
    RunConfig(data="mnist", hold_out={"test": 0.5}).save(file)
    assert chosen_config({}, file=file).hold_out == {"test": 0.5}
    (tmp_path / "split.json").write_text("{}")
    config = chosen_config({}, file=file)
    assert (config.split, config.hold_out) == (str(tmp_path / "split.json"), None)


def test_own_data_gets_what_suits_it(tmp_path) -> None:
    place = images(tmp_path / "a.npz", classes=24, each=3)
    data, given = load_dataset(place), {"data": str(place)}
    suited = own_settings(data)
    config = chosen_config(given, dataset=data)
    assert config.network == suited["network"] == "glyph"
    assert config.hold_out == suited["hold_out"]
    assert config.scale is None  # chosen from classes and dimension
    assert chosen_config({**given, "network": "simple"}, dataset=data).network == "simple"
    recipe = chosen_config(given, recipe="orl", dataset=data)
    assert (recipe.network, recipe.recipe) == ("mobilefacenet", "orl")
    assert recipe.hold_out == suited["hold_out"]  # the recipe's is for its own data
    file = tmp_path / "some.toml"
    file.write_text("dim = 5\n")
    changed = chosen_config(given, file=file, dataset=data)
    assert changed == config.replace(dim=5)
    recipe = chosen_config(given, file=file, recipe="orl", dataset=data)
    assert (recipe.network, recipe.dim, recipe.hold_out) == ("mobilefacenet", 5, config.hold_out)
    file.write_text('network = "simple"\nclasses = "c00,c01"\n')
    named = chosen_config(given, file=file, dataset=data)
    assert (named.network, named.classes, named.hold_out) == ("simple", "c00,c01", None)
    assert named.augment == config.augment
    vector = load_dataset(vectors(tmp_path / "v.npz"))
    assert chosen_config({"data": "x"}, dataset=vector).network == "mlp"


def test_a_run_s_file_says_everything(tmp_path) -> None:
    """What it lacks was not asked for then, either."""
    place = images(tmp_path / "a.npz", classes=24, each=3)
    config = RunConfig(data=str(place), network="mlp", class_names=("a", "b"))
    config.save(tmp_path / "some.toml")
    again = chosen_config({}, file=tmp_path / "some.toml", dataset=load_dataset(place))
    assert again == config


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("size", "64", [64, 64]),
        ("size", "64x48", [64, 48]),
        ("size", "64×48", [64, 48]),
        ("size", "", None),
        ("hold_out", "0.1,0.2", {"validation": 0.1, "test": 0.2}),
        ("hold_out", "0,0.2", {"validation": 0, "test": 0.2}),
        ("augment", "affine:rotate=10, flip", ["affine:rotate=10", "flip"]),
        ("augment", "none", []),
        ("epochs", "3", 3),
        ("invert", "true", True),
        ("network", "vgg8", "vgg8"),
        ("clip", "", None),
    ],
)
def test_settings_from_text(key: str, text: str, value: object) -> None:
    assert parse_setting(key, text) == value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["epochs"], "--set epochs"),
        (["size=big"], "'big'"),
        (["size=1x2x3"], "'1x2x3'"),
        (["hold_out=0.1"], "'0.1'"),
        (["hold_out=a,b"], "'a,b'"),
        (["recipe=orl"], "--recipe orl"),
        (["loss=arcfase"], "'arcfase'.*'arcface'"),
        (["epochs=0"], "epochs=0"),
    ],
)
def test_text_that_says_nothing_is_refused(settings: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        chosen_config({"data": "mnist"}, settings=settings)


def test_files_that_say_nothing_are_refused(tmp_path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("loss = 3\n")
    with pytest.raises(OptionError, match="loss=3"):
        chosen_config({"data": "mnist"}, file=file)
    with pytest.raises(RunError, match=r"none\.toml"):
        chosen_config({"data": "mnist"}, file=tmp_path / "none.toml")


def test_own_data_and_names(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces").mkdir()
    (tmp_path / "mnist").mkdir()
    assert is_own("faces")
    assert not is_own("mnist")  # a name goes first
    assert is_own("./mnist")
    assert not is_own("")
    assert not is_own("nowhere")
    assert absolute("faces") == str(tmp_path / "faces")
    assert absolute("mnist") == "mnist"


CONFIGS = [
    {"hold_out": {"validation": 0.1, "test": 0.25}, "size": (64, 48)},
    {"hold_out": {"validation": ("Latin/*", 'a"b\\c'), "test": ("Gr?ek/*",)}, "channels": 3},
    {"hold_out": {"test": 0.5}, "augment": ("affine:rotate=10", "flip"), "size": (1, 2)},
    {"hold_out": {}, "augment": (), "fit": "crop", "invert": True},
    {"per_class": 4, "accumulate": 2, "ema": 0.9, "clip": 1.0, "autocast": "float16", "warm_up": 0},
]


@pytest.mark.parametrize("settings", CONFIGS)
def test_toml_round_trip(settings, tmp_path) -> None:
    config = RunConfig(data="mnist", **settings)
    config.save(tmp_path / "config.toml")
    again = RunConfig.load(tmp_path / "config.toml")
    assert again == config
    assert again.model_dump() == config.model_dump()
    assert config.replace() == config


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


def test_an_unknown_setting_in_a_file_is_told_with_the_file_and_the_nearest(tmp_path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("learningrate = 0.1\n")
    with pytest.raises(OptionError, match=r"some\.toml.*'learningrate'.*'learning_rate'"):
        chosen_config({"data": "mnist"}, file=file)
