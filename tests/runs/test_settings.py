"""Which layer decides a setting: one test per layer, one per rule, and how values are written."""

import pytest

from arcset.data import load_dataset
from arcset.errors import OptionError, RunError
from arcset.runs import Run, RunConfig
from arcset.runs.settings import (
    inherited_settings,
    is_user_data,
    list_layers,
    parse_changes,
    parse_setting,
    read_recipe,
    resolve_settings,
    suitable_settings,
)
from support.small_data import images, vectors


def resolve(options, *, changes=(), dataset=None, **sources):
    """The settings of a run: options, texts of --set, and further layers as `list_layers` takes
    them."""
    given = {"data": "mnist", **options, **parse_changes(changes)}
    settings = resolve_settings(list_layers(given, **sources))
    return settings if dataset is None else settings.suited_to(dataset)


@pytest.fixture
def file(tmp_path):
    """Write a TOML file and give its path."""

    def write(text, name="some.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def old(tmp_path):
    config = RunConfig(
        data="mnist", loss="cosface", scale=9.0, margin=0.2, network="glyph", dim=32, epochs=40,
        learning_rate=0.5, classes="0-4", options={"subcenters": 2}, shape=(1, 28, 28),
    )  # fmt: skip
    return Run.create(tmp_path / "old", config)


# A test per layer


def test_defaults_hold_where_no_layer_says_anything():
    settings = resolve({})
    assert settings.config == RunConfig(data="mnist")
    assert settings.origin == {"data": "options"}
    assert {layer for _, _, layer in settings.rows()} == {"defaults", "options"}


def test_data_of_the_user_gets_what_suits_it(tmp_path):
    path = images(tmp_path / "a.npz", classes=24, each=3)
    data = load_dataset(path)
    settings = resolve({"data": str(path)}, dataset=data)
    suited = suitable_settings(data)
    assert settings.config.network == suited["network"] == "glyph"
    assert settings.config.hold_out == suited["hold_out"]
    assert settings.config.scale is None  # chosen from classes and dimension
    assert settings.origin["network"] == "what suits the data"
    assert resolve({"network": "simple"}, dataset=data).config.network == "simple"
    vector = load_dataset(vectors(tmp_path / "v.npz"))
    assert resolve({}, dataset=vector).config.network == "mlp"


def test_a_run_that_starts_from_another_takes_its_settings_over(old):
    settings = resolve({"data": "mnist-sample"}, start=old)
    config = settings.config
    assert (config.network, config.dim, config.loss, config.scale) == ("glyph", 32, "cosface", 9.0)
    assert (config.epochs, config.learning_rate, config.margin_warm_up) == (10, 0.1, 0.0)
    assert config.options == {"subcenters": 2}
    assert config.start == str(old.path.resolve())
    assert (config.classes, config.shape) == (None, None)
    assert settings.origin["dim"] == settings.origin["options.subcenters"] == f"run {old.path}"


def test_the_run_named_on_the_command_line_is_the_one_to_start_from(old, file):
    path = file('data = "mnist"\nstart = "another"\n')
    config = resolve_settings(list_layers({}, file=path, start=old)).config
    assert (config.start, config.dim) == (str(old.path.resolve()), 32)
    assert resolve_settings(list_layers({}, file=path)).config.start == "another"
    given = resolve({"epochs": 9}, changes=["margin_warm_up=0.1"], start=old).config
    assert (given.epochs, given.margin_warm_up) == (9, 0.1)
    assert resolve({"data": "mnist-sample"}, start=old).config.size is None  # it has its own


def test_a_run_that_goes_on_keeps_its_settings(old):
    settings = resolve({"epochs": 50}, continued=old)
    assert settings.config == old.config.replace(epochs=50, shape=None)


def test_then_come_recipe_file_and_options_and_last_what_is_set(old, file):
    path = file("dim = 33\nbatch = 44\nepochs = 55\n")
    options = {"data": "omniglot", "batch": 66, "epochs": 77}
    settings = resolve(options, recipe="omniglot", file=path, start=old, changes=["epochs=88"])
    config, origin, recipe = settings.config, settings.origin, read_recipe("omniglot").settings
    assert (config.scale, config.recipe) == (recipe["scale"], "omniglot")
    assert config.hold_out == {part: tuple(names) for part, names in recipe["hold_out"].items()}
    assert (config.dim, config.batch, config.epochs) == (33, 66, 88)
    assert (origin["scale"], origin["dim"]) == ("recipe omniglot", f"file {path}")
    assert (origin["batch"], origin["epochs"]) == ("options", "options")


# Rules


@pytest.mark.parametrize("how", ["option", "set", "file"])
def test_another_loss_does_not_inherit_scale_and_margin(how, file):
    options, sources = {"data": "omniglot"}, {"recipe": "omniglot"}
    if how == "option":
        options["loss"] = "cosface"
    elif how == "set":
        sources["changes"] = ["loss=cosface"]
    else:
        sources["file"] = file('loss = "cosface"\n')
    config = resolve(options, **sources).config
    assert (config.loss, config.scale, config.margin) == ("cosface", None, None)
    assert config.network == "glyph"  # all else it does
    assert resolve({**options, "scale": 9.0}, **sources).config.scale == 9.0


def test_the_same_loss_with_options_does():
    config = resolve({"loss": "arcface:fallback=easy"}, recipe="omniglot").config
    recipe = read_recipe("omniglot").settings
    tuned = (recipe["scale"], recipe["margin"], {"fallback": "easy"})
    assert (config.scale, config.margin, config.options) == tuned


def test_another_loss_does_not_inherit_the_full_margin_of_a_run_to_start_from(old):
    config = resolve({"loss": "arcface"}, start=old).config
    default = RunConfig(data="mnist").margin_warm_up
    assert (config.scale, config.margin, config.margin_warm_up) == (None, None, default)
    assert config.dim == 32


@pytest.mark.parametrize("key", ["classes", "split"])
def test_classes_split_and_hold_out_replace_each_other(key, tmp_path):
    named = {"classes": "a,b", "split": "some.json"}[key]
    for options, changes in (({key: named}, []), ({}, [f"{key}={named}"])):
        config = resolve({"data": "omniglot", **options}, recipe="omniglot", changes=changes).config
        assert getattr(config, key) == named
        assert config.hold_out is None
    file = tmp_path / "some.toml"
    RunConfig(data="mnist", **{key: named}).save(file)
    config = resolve({"hold_out": {"test": 0.5}}, file=file).config
    assert config.hold_out == {"test": 0.5}
    assert (config.classes, config.split) == (None, None)


def test_two_of_them_in_one_command_both_stay_to_be_refused():
    config = resolve({"classes": "0-4"}, changes=["hold_out=0.1,0.1"]).config
    assert config.classes is not None
    assert config.hold_out is not None


def test_beside_a_recipe_the_data_says_only_whom_to_hold_out(tmp_path, file):
    path = images(tmp_path / "a.npz", classes=24, each=3)
    data, options = load_dataset(path), {"data": str(path)}
    suited = resolve(options, dataset=data).config
    config = resolve(options, recipe="orl", dataset=data).config
    assert (config.network, config.recipe) == ("mobilefacenet", "orl")
    assert config.hold_out == suited.hold_out  # the recipe's is for its own data
    config = resolve(options, recipe="orl", file=file("dim = 5\n"), dataset=data).config
    assert (config.network, config.dim, config.hold_out) == ("mobilefacenet", 5, suited.hold_out)


def test_beside_a_file_the_data_says_what_the_file_does_not(tmp_path, file):
    path = images(tmp_path / "a.npz", classes=24, each=3)
    data, options = load_dataset(path), {"data": str(path)}
    suited = resolve(options, dataset=data).config
    config = resolve(options, file=file("dim = 5\n"), dataset=data).config
    assert config == suited.replace(dim=5)
    text = 'network = "simple"\nclasses = "c00,c01"\n'
    named = resolve(options, file=file(text), dataset=data).config
    assert (named.network, named.classes, named.hold_out) == ("simple", "c00,c01", None)
    assert named.augment == suited.augment


def test_the_file_of_a_trained_run_says_everything(old, tmp_path):
    """What it lacks was not asked for then, either."""
    path = images(tmp_path / "a.npz", classes=24, each=3)
    config = RunConfig(data=str(path), network="mlp", class_names=("a", "b"))
    config.save(tmp_path / "some.toml")
    layers = list_layers({}, file=tmp_path / "some.toml")
    assert resolve_settings(layers).suited_to(load_dataset(path)).config == config
    settings = resolve({"data": str(path)}, start=old)  # so does a run to start from
    assert settings.suited_to(load_dataset(path)) == settings
    assert (settings.config.size, settings.config.channels) == ((28, 28), 1)


def test_a_run_s_own_copies_of_split_and_mapping_are_used(tmp_path):
    file = tmp_path / "config.toml"
    RunConfig(data="mnist", hold_out={"test": 0.5}, mapping="gone.json").save(file)
    assert resolve({}, file=file).config.hold_out == {"test": 0.5}
    (tmp_path / "split.json").write_text("{}")
    config = resolve({}, file=file).config
    assert (config.split, config.hold_out) == (str(tmp_path / "split.json"), None)
    assert config.mapping == str(tmp_path / "mapping.json")


def test_set_wins_over_what_the_loss_carries():
    options = {"loss": "arcface:margin=0.1:fallback=easy"}
    changes = ["margin=0.2", "fallback=linear", "subcenters=2"]
    settings = resolve(options, changes=changes)
    assert settings.config.margin == 0.2
    assert settings.config.options == {"fallback": "linear", "subcenters": 2}
    assert settings.origin["options.subcenters"] == "options"
    assert resolve(options).config.margin == 0.1
    assert resolve({**options, "margin": 0.3}).config.margin == 0.3


@pytest.mark.parametrize("text", ["none", ""])
def test_nothing_takes_a_setting_of_the_recipe_away(text):
    off = {key: parse_setting(key, text) for key in ("hold_out", "augment")}
    for options, changes in ((off, []), ({}, [f"hold_out={text}", f"augment={text}"])):
        config = resolve({"data": "omniglot", **options}, recipe="omniglot", changes=changes).config
        assert config.hold_out is None
        assert config.augment == ()
    assert resolve({}, recipe="omniglot", changes=["scale="]).config.scale is None


def test_a_scale_or_margin_that_the_loss_does_not_have_is_ignored_with_a_note():
    settings = resolve({"loss": "softmax", "scale": 3.0})
    assert settings.config.scale is None
    assert len(settings.notes) == 1
    assert "softmax" in settings.notes[0]
    assert "scale=3" in settings.notes[0]
    assert "scale" not in settings.origin


def test_data_of_the_user_is_named_by_its_whole_path(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces").mkdir()
    (tmp_path / "mnist").mkdir()
    assert is_user_data("faces")
    assert not is_user_data("mnist")  # a name goes first
    assert is_user_data("./mnist")
    assert not is_user_data("")
    assert not is_user_data("nowhere")
    assert resolve({"data": "faces"}).config.data == str(tmp_path / "faces")
    assert resolve({"data": "mnist"}).config.data == "mnist"
    layers = list_layers({}, file=file('data = "faces"\n'))
    assert resolve_settings(layers).config.data == str(tmp_path / "faces")


def test_who_is_held_out_by_pattern_is_inherited_for_the_same_data_only(old):
    patterns = Run(old.path, old.config.replace(classes=None, hold_out={"test": ("4", "9")}))
    assert "hold_out" not in inherited_settings(patterns, "y")
    assert "hold_out" in inherited_settings(patterns, "mnist")


# How values are written


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("size", "64", [64, 64]),
        ("size", "64×48", [64, 48]),
        ("size", "", None),
        ("hold_out", "0.1,0.2", {"validation": 0.1, "test": 0.2}),
        ("augment", "affine:rotate=10, flip", ["affine:rotate=10", "flip"]),
        ("augment", "none", []),
        ("epochs", "3", 3),
        ("invert", "true", True),
        ("classes", "5", "5"),
        ("clip", "", None),
        ("fallback", "easy", "easy"),
        ("loss", "center:base=arcface", "center:base=arcface"),
    ],
)
def test_settings_from_text(key, text, value):
    assert parse_setting(key, text) == value
    assert parse_changes([f"{key}={text}"]) == {key: value}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["epochs"], "--set epochs"),
        (["size=big"], "'big'"),
        (["hold_out=a,b"], "'a,b'"),
        (["recipe=orl"], "--recipe orl"),
        (["start=old"], "--from old"),
        (["options=3"], "options=3"),
        (["loss=arcface:easy"], "'arcface:easy'"),
        (["epocs=3"], "'epocs'.*'epochs'"),
        (["falback=easy"], "'falback'.*'fallback'"),
        (["bananas=3"], "'bananas'.*fallback"),
    ],
)
def test_text_that_says_nothing_is_refused(changes, message):
    with pytest.raises(OptionError, match=message):
        resolve({}, changes=changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss = 3\n", "'3'"),
        ("options = 5\n", r"some\.toml.*options=5"),
        ("learningrate = 0.1\n", r"some\.toml.*'learningrate'.*'learning_rate'"),
        ("options = {falback = 'easy'}\n", r"some\.toml.*'falback'.*'fallback'"),
        ("data = 3\n", "data=3"),
    ],
)
def test_files_that_say_nothing_are_refused(file, text, message):
    with pytest.raises(OptionError, match=message):
        resolve_settings(list_layers({}, file=file(text)))
    with pytest.raises(RunError, match=r"none\.toml"):
        resolve({}, file=file("").with_name("none.toml"))
