"""The model card says what the files say, and nothing that nobody measured."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.main import get_command

from arcset.cli import main
from arcset.cli.app import app
from arcset.data import ImageSet, Selection, make_split
from arcset.data.embeddings import EmbeddingSet
from arcset.evaluation import assess
from arcset.reports.model_card import write_card
from arcset.reports.tables import list_values
from arcset.runs import Run, RunConfig
from arcset.runs.assess import EvaluationData, evaluation_data
from arcset.runs.model import TrainedRun, build_model
from arcset.training import train

SMALL = {"data": "mnist-sample", "dim": 8, "epochs": 1, "scale": 8.0, "snapshot": 20}
SMALL |= {"network": "mlp"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cards")


@pytest.fixture(scope="module")
def split_run(place):
    names = [str(digit) for digit in range(10)]
    make_split(names, (0.4, 0.3, 0.3), data="mnist-sample").save(place / "split.json")
    config = RunConfig(split=str(place / "split.json"), **SMALL)
    return train(config, place / "digits", device="cpu")


def changed(run, selection=None, **settings):
    """The run, as if it had other data or settings."""
    folder = Run(run.path, run.config.replace(**settings))
    return TrainedRun(folder, run.network, run.loss, run.device, selection or run.selection)


def card_of(run, data=None, assessment=None, **options):
    return write_card(run, data, assessment, **options).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def judged(split_run):
    return evaluation_data(split_run)


@pytest.fixture(scope="module")
def found(judged):
    return judged.assess(draws=50)


@pytest.fixture(scope="module")
def card(split_run, judged, found):
    return card_of(split_run, judged, found)


@pytest.fixture(scope="module")
def classes_run(place):
    return train(RunConfig(classes="0-4", **SMALL), place / "classes", device="cpu")


@pytest.fixture(scope="module")
def known_run(classes_run):
    """A run that has held nothing out."""
    return changed(classes_run, replace(classes_run.selection, unseen=None))


def front(text):
    """The front matter: texts, and lists of texts."""
    _, content, _ = text.split("---\n", 2)
    found, key = {}, ""
    for line in content.splitlines():
        if line.startswith("- "):
            found.setdefault(key, []).append(json.loads(line[2:]))
        else:
            key, _, value = line.partition(":")
            if value:
                found[key] = json.loads(value)
    return found


def section(text, title):
    return re.search(rf"^## {title}\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


def rows(text):
    """The tables in a text, each row by its first cell."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in cells}


def test_the_front_matter_is_what_hubs_read(card):
    fields = front(card)
    assert fields["library_name"] == "arcset"
    assert fields["license"] == "unknown"
    assert fields["pipeline_tag"] == "image-feature-extraction"
    assert {"arcset", "open-set-recognition", "arcface"} <= set(fields["tags"])
    assert {"tar_at_far", "eer", "auc", "recall_at_1", "map_at_r"} <= set(fields["metrics"])


def test_the_figures_are_those_of_the_assessment(card, found):
    text = section(card, "How well it recognizes what it has never seen")
    table, values = rows(text), list_values(found)
    for name in ("tar_at_far[0.01]", "eer", "auc", "rank[1]", "dir_at_fpir[0.1]", "recall_at[1]"):
        value = values[name]
        assert table[value.label][:2] == [value.format(), value.format_interval()]
    low, high = found.verification.interval("tar_at_far", 0.01)
    assert table["TAR at FAR 1 %"][:2] == [
        f"{100 * found.verification.tar_at_far[0.01]:.2f} %",
        f"{100 * low:.2f} to {100 * high:.2f} %",
    ]
    assert table["3-way 1-shot"][0] == f"{100 * found.few_shot.accuracy:.2f} %"  # of 3 digits
    assert "300 samples of 3 identities, none of which was in training" in text
    assert "From fewer than 20 identities even the intervals are guesses." in text
    # what the data cannot support has no number
    assert np.isnan(found.verification.tar_at_far[1e-5])
    why = "too rare to be seen in 30,000 pairs of different identities"
    assert table["TAR at FAR 0.001 %, 0.0001 %"] == ["not known", "", why]
    assert not re.search(r"\bnan\b", card, re.IGNORECASE)
    assert "6 held-out identities" in section(card, "Thresholds")
    assert "cannot be pinned down" in section(card, "Thresholds")


def test_data_settings_and_course_are_listed(card, split_run):
    selection, data = split_run.selection, section(card, "Data")
    for name, count, part in (
        ("training", "4", selection.train),
        ("validation", "3", selection.validation),
        ("unseen", "3", selection.unseen),
    ):
        assert rows(data)[name][:2] == [count, f"{len(part):,}"]
    for words in ("CC BY-SA 3.0", "shares 40 %, 30 %, 30 %; seed 0", "No identity is in two of"):
        assert words in data
    training = section(card, "Training")
    assert f"The loss was {split_run.metrics()[-1]['loss']:.4g}." in training
    assert re.search(r"\| `scale` +\| `8` ", training)
    listed = set(re.findall(r"\| `(\w+)` +\| `", training))
    settings = split_run.config.model_dump(mode="json", exclude_none=True)
    expected = {key for key, value in settings.items() if value not in ([], {}, "")}
    assert listed == expected - {"class_names", "shape"}


def test_there_is_no_path_of_the_machine(card, place, known_run):
    assert str(place) not in card
    assert not re.search(r"(?<![\w:/])/\w", card.replace("//", ""))
    skipped = (("a.png", "torn"), ("b.png", "empty"))
    selection = replace(known_run.selection, licence="", skipped=skipped)
    text = card_of(changed(known_run, selection, data="/home/anna/secret/my faces"))
    assert "anna" not in text
    assert "`my faces`. Its licence: not stated." in text
    assert "Left out, as they could not be read: 2 files." in text


def test_a_run_without_unseen_identities_says_so(known_run):
    text = card_of(known_run)
    told = section(text, "How well it recognizes what it has never seen")
    assert "It is not known how well this model works on identities it has not seen." in told
    assert "`arcset data split DATA --out split.json`" in told
    assert not rows(told)
    assert "metrics" not in front(text)
    assert "No identity was held out: all of them were trained on." in text


def test_figures_that_are_not_about_the_unseen_are_left_out(classes_run, known_run):
    title = "How well it recognizes what it has never seen"
    text = card_of(classes_run)
    assert section(text, title).startswith("Not measured yet. 5 identities were held out")
    assert "The identities `0-4` were trained on, all others held out." in text
    judged = evaluation_data(classes_run, part="test")
    assessment = judged.assess(intervals=False)
    text = card_of(known_run, judged, assessment)
    told = section(text, title)
    assert told.startswith("5 of the 5 identities judged were in training")
    assert not rows(told)
    assert f"{assessment.verification.auc:.4f}" not in text
    assert "## Thresholds" not in text


@pytest.mark.parametrize(
    ("licence", "expected", "shown"),
    [
        ("apache-2.0", {"license": "apache-2.0"}, "apache-2.0"),
        ("CC BY-SA 3.0", {"license": "cc-by-sa-3.0"}, "CC BY-SA 3.0"),
        ('a: "b" | c', {"license": "other", "license_name": 'a: "b" | c'}, 'a: "b" \\| c'),
        ("", {"license": "unknown"}, "not stated: fill in before sharing"),
    ],
)
def test_the_licence_of_the_model(known_run, licence, expected, shown):
    text = card_of(known_run, licence=licence)
    fields = front(text)
    assert {key: fields[key] for key in fields if key.startswith("license")} == expected
    assert rows(section(text, "Licence"))["the model"] == [shown]


def commands(text):
    """Every command of a card: in blocks, and within sentences."""
    lines = re.findall(r"^arcset .+$", text, re.MULTILINE)
    return [*lines, *re.findall(r"`(arcset [^`]+)`", text)]


def parsed(line):
    """Read as the command line reads it, without doing it; raises for what it does not know."""
    command, words = get_command(app), shlex.split(line)[1:]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command.make_context("arcset", words).params if words else {}


def test_every_command_in_the_card_exists(card, known_run):
    lines = {*commands(card), *commands(card_of(known_run))}
    assert "arcset train --config config.toml --out again" in lines
    assert "arcset evaluate RUN" in lines
    assert "arcset data split DATA --out split.json" in lines
    for line in lines:
        parsed(line)
    assert parsed("arcset embed RUN FOLDER --out e.parquet")["data"] == "FOLDER"


def test_the_command_trains_it_again(split_run, card, monkeypatch):
    (line,) = [line for line in commands(card) if line.startswith("arcset train")]
    monkeypatch.chdir(split_run.path)
    with pytest.raises(SystemExit) as stopped:
        main([*shlex.split(line)[1:], "--no-report", "--device", "cpu", "--json"])
    assert not stopped.value.code
    again = Run.open("again").load_model()[0]
    for name, tensor in split_run.load_model()[0].items():
        torch.testing.assert_close(again[name], tensor)


def run_python(text, run):
    """What the Python of a card leaves behind."""
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = {}
    exec(block.replace('"RUN"', repr(str(run.path))), names)
    return names


def test_the_python_in_the_card_runs(card, split_run):
    left = run_python(card, split_run)
    assert left["embeddings"].shape == (2, 8)
    assert float(left["cosine"]) == pytest.approx(1.0)


def test_the_epoch_whose_weights_are_kept(split_run, many):
    run = changed(split_run, epochs=4)
    before = run.metrics()
    lines = [
        {"epoch": 1, "loss": 3.0, "seconds": 50.0, "validation": {"map": 0.5}, "kept": True},
        {"epoch": 2, "loss": 2.0, "seconds": 50.0, "validation": {"map": 0.75}, "kept": True},
        {"epoch": 3, "loss": 1.0, "seconds": 50.0, "validation": {"map": 0.25}, "kept": False},
    ]
    try:
        run.write_metrics(lines)
        text = card_of(run, None, many)
    finally:
        run.write_metrics(before)
    told = section(text, "Training")
    assert told.startswith("3 epochs of 4 in 2 min 30 s, measuring not counted.")
    assert "The loss went from 3 to 1." in told
    assert "those of epoch 2, the best on the validation identities (map 0.75)" in told
    assert "chose the epoch, too" in section(text, "Limits")


@pytest.fixture(scope="module")
def many():
    """People of two parts, of whom thresholds can be made; the second is judged."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(100), 4)
    rows = rng.normal(size=(100, 8))[labels] + 0.5 * rng.normal(size=(400, 8))
    return assess(rows[200:], labels[200:], validation=(rows[:200], labels[:200]), draws=50)


def test_thresholds_with_what_to_expect_of_them(split_run, many):
    made, text = many.thresholds, card_of(split_run, None, many)
    assert "even the intervals are guesses" not in text  # of 50
    assert "few_shot_accuracy" in front(text)["metrics"]
    text = section(text, "Thresholds")
    assert "200 samples of 50 identities" in text
    upper, _, lower = text.partition("What they did")
    assert rows(upper)["FAR 1 %"][:2] == ["pairs", f"{made.fars[0].threshold:.4f}"]
    assert upper.count("| FPIR ") == sum(item.pinned for item in made.fpirs)
    assert any(item.extrapolated for item in made.fpirs) == ("Extrapolated:" in upper)
    unpinned = upper.partition("cannot be pinned down")[2].partition("\n")[0]
    for item in made.fars:
        assert (f"FAR {100 * item.far:g} %" in unpinned) == (not item.pinned)
    assert rows(lower)["FAR 1 %"][5] == f"{100 * many.realized[0].accepted:.2f} %"


def test_parts_that_cannot_be_measured_say_why(split_run):
    rng = np.random.default_rng(0)
    alone = assess(rng.normal(size=(6, 4)), np.arange(6), intervals=False)  # one sample each
    text = card_of(split_run, None, alone)
    table = rows(section(text, "How well it recognizes what it has never seen"))
    assert table["verification"] == ["not known", "", alone.missing["verification"]]
    assert table["few-shot"][0] == "not known"
    assert "metrics" not in front(text)


def test_vectors_are_called_vectors(place):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 8)
    vectors = rng.normal(size=(48, 5)).astype(np.float32)
    names = tuple("abcdef")
    known = labels < 4
    selection = Selection(
        name="vectors.npz",
        train=ImageSet(vectors[known], labels[known], names[:4]),
        test=None,
        unseen=ImageSet(vectors[~known], labels[~known] - 4, names[4:]),
    )
    data = str(place / "vectors.npz")
    config = RunConfig(data=data, network="mlp", dim=4, shape=(5,), class_names=names[:4])
    run = Run.create(place / "vectors", config)
    network, loss = build_model(config)
    run.save_model(network.state_dict(), loss.state_dict())
    run = TrainedRun(run, network, loss, torch.device("cpu"), selection)
    judged = EvaluationData(
        title="vectors",
        embeddings=EmbeddingSet.of(vectors[~known], np.array(names)[labels[~known]].tolist()),
        overlap=(),
        description=f"{data}, identities never seen",
    )
    text = card_of(run, judged, judged.assess(draws=20))
    assert "An embedding of 4 dimensions for vectors of 5 values" in text
    assert front(text)["pipeline_tag"] == "feature-extraction"
    assert "Measured on vectors.npz, identities never seen: 16 samples of 2 identities" in text
    assert "How training went is not recorded." in text
    assert str(place) not in text
    assert run_python(text, run)["embeddings"].shape == (2, 4)
