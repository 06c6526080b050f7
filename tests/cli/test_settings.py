"""Settings on the command line: options derived from them, and what config.toml says in the end."""

import json
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from arcset.cli.settings import OPTIONS, print_settings, takes_settings
from arcset.runs import Run, RunConfig
from arcset.runs.settings import list_layers, resolve_settings
from support.small_data import images


@pytest.fixture
def verb():
    """A verb with an option for each setting: its help, or the settings that it gets."""
    app = typer.Typer()
    received = []

    @app.command()
    @takes_settings(*OPTIONS, after="out")
    def train(out: Annotated[str, typer.Option()] = "", json: bool = False, **settings: Any):
        received.append(settings)

    def call(*words):
        done = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})
        assert done.exit_code == 0, done.output
        return received.pop() if received else done.output

    return call


def test_a_verb_gets_the_settings_that_were_given_and_no_others(verb):
    assert verb("--out", "x") == {}
    words = ["--epochs", "3", "--hold-out", "none", "--lr", "0.5", "--size", "64x48"]
    assert verb(*words, "--augment", "flip", "--classes", "5") == {
        "epochs": 3,
        "hold_out": None,
        "learning_rate": 0.5,
        "size": [64, 48],
        "augment": ["flip"],
        "classes": "5",
    }


def test_help_says_what_decides_a_setting_that_is_not_given(verb):
    text = verb("--help")
    lines = text.splitlines()
    assert text.index("--out") < text.index("--loss") < text.index("--json")
    for name, words in {
        "--epochs": ["at least 1", "what suits the data", "20"],
        "--loss": ["arcface", "adaface"],
        "--optimizer": ["sgd|adamw"],
        "--scale": ["from classes and dimension"],
        "--size": ["from the files"],
        "--seed": ["0"],
    }.items():
        first = next(number for number, line in enumerate(lines) if name in line)
        told = " ".join(lines[first : first + 4])
        assert all(word in told for word in words), told


def test_every_setting_has_a_description_and_can_be_shown(capsys):
    assert all(field.description for field in RunConfig.model_fields.values())
    layers = list_layers({"data": "mnist", "loss": "arcface:fallback=easy"}, recipe="omniglot")
    settings = resolve_settings(layers)
    print_settings(settings, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["epochs"] == {"value": 64, "from": "recipe omniglot"}
    assert told["options.fallback"] == {"value": "easy", "from": "options"}
    assert told["clip"] == {"value": None, "from": "defaults"}
    print_settings(settings, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert any("epochs" in line and "64" in line and "recipe omniglot" in line for line in lines)


def test_show_settings_prints_the_layer_of_each_value_and_trains_nothing(arcset_command, tmp_path):
    path = images(tmp_path / "a.npz", classes=24, each=4, size=8)
    (tmp_path / "some.toml").write_text("dim = 6\n")
    words = ["train", path, "--config", "some.toml", "--out", "run", "--set", "clip=1"]
    done = arcset_command(*words, "--show-settings", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["network"] == {"value": "glyph", "from": "what suits the data"}
    assert told["dim"] == {"value": 6, "from": "file some.toml"}
    assert (told["data"]["from"], told["clip"]["from"]) == ("options", "options")
    assert not (tmp_path / "run").exists()
    done = arcset_command(
        "train", "--config", "some.toml", "--set", "data=mnist", "--show-settings"
    )
    assert done.code == 0
    assert "some.toml" in done.out
    Run.create(tmp_path / "old", RunConfig(data="mnist", dim=9))
    done = arcset_command("train", "--resume", "old", "--epochs", "5", "--show-settings", "--json")
    told = json.loads(done.out)
    assert told["dim"] == {"value": 9, "from": "run old"}
    assert told["epochs"] == {"value": 5, "from": "options"}
