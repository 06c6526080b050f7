"""README's commands in their order, on photos of forty people, each on what the ones before made.

Commands run as they stand there, but for what `SHORTER` says. In `make test` they are called in one
process; in `make test-all` each is a process of its own, as a user's.
"""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from contract.journey import ROOT, Journey, Outcome, once, steps_of
from contract.outside import command_tree
from contract.people import GUESTS, NAMES, save_people, save_photo
from contract.recording import recorded

pytestmark = pytest.mark.timeout(900)

README = ROOT / "README.md"
STEPS = steps_of(README)

MNIST = Path(os.environ.get("ARCSET_DATA", "")) / "mnist"

#: Commands that are made shorter, by what they are followed by or replaced with.
SHORTER = {
    "make demo": "{make} demo",  # it takes minutes
    "make test": "{make} test",  # we are in it
    "arcset train mnist-sample": "{command} --epochs 2",
    "arcset train faces/": "{command} --epochs 2 --size 32",
    "import arcset\n\nrun = arcset.train": "{command}",  # with one epoch
    "arcset compare mnist ": "",  # 45 times 60,000 digits: here it is understood, and not obeyed
}
#: In processes of their own.
SHORTER_APART = {
    **SHORTER,
    "make demo": "{make} demo && arcset demo --epochs 1 --seeds 1",
    "arcset compare mnist ": "{command} --epochs 1 --seeds 1",
}
#: What the README says that a command makes.
MADE = {
    "arcset train mnist-sample": ["runs/arcface/model.safetensors", "runs/arcface/report.html"],
    "arcset data check": ["sheet.png"],
    "arcset train faces/": ["runs/faces/README.md", "runs/faces/report.html"],
    "arcset embed": ["photos.parquet"],
    "arcset export": ["faces.onnx"],
    "arcset enroll": ["people.db"],
    "arcset cluster": ["album-groups/groups.html", "album-groups/groups.csv"],
}
#: What is to be found in what it writes.
SAYS = {"make demo": "arcset demo", "make test": "pytest"}
#: Exit code 1 answers as well: different, unknown.
ANSWERS = ("arcset verify", "arcset identify")


def _entry(table, step):
    """What a table says of a step, or None."""
    return next((table[start] for start in table if step.text.startswith(start)), None)


def prepare(folder):
    """The photos that the README speaks of, by the names that it gives them."""
    save_people(folder / "faces", NAMES, each=7)
    save_people(folder / "photos", GUESTS[:12], each=3)
    save_people(folder / "album", GUESTS[:12], each=3, first=10)
    save_people(folder / "others", GUESTS[12:20], each=3)
    for number, file in enumerate(["a", "b", "visitor", "anna-1", "anna-2"], 20):
        save_photo(folder / f"{file}.jpg", "anna", number)


def shortened(step, apart):
    """What is typed instead, or None for what stands there."""
    pattern = _entry(SHORTER_APART if apart else SHORTER, step)
    if pattern is None:
        return None
    command = re.sub(r"\s+#.*", "", step.text)
    command = re.sub(r"epochs=\d+", "epochs=1, report=False", command)
    return pattern.format(command=command, make=f"make -C {ROOT} --dry-run")


def understood(step):
    """Whether all words of a command are known; nothing is done."""
    _, verb, *words = shlex.split(step.text, comments=True)
    try:
        command_tree().commands[verb].make_context(verb, words)
    except Exception as error:
        return Outcome(2, repr(error))
    return Outcome(0, "")


def travelled(folder, *, apart):
    """All steps, whatever becomes of those before."""
    prepare(folder)
    outcomes = []
    with Journey(folder, apart=apart) as journey:
        for step in STEPS:
            text = shortened(step, apart)
            if text == "" or ("mnist " in step.text and apart and not MNIST.exists()):
                outcome = understood(step)
            else:
                outcome = journey.take(step, text)
            if step.text.startswith("arcset train mnist-sample") and not apart:
                shutil.copytree(folder / "runs/arcface", folder / "runs/demo")
            outcomes.append((outcome.code, outcome.text))
        return [*outcomes, (journey.stop(), "")]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="in one process"),
        pytest.param(True, id="a process each", marks=pytest.mark.long),
    ],
)
def journey(request, tmp_path_factory):
    """The folder in the end, and how each step came out."""
    apart = request.param
    name = "readme-apart" if apart else "readme"
    folder, told = once(tmp_path_factory, name, lambda place: travelled(place, apart=apart))
    return folder, [Outcome(*outcome) for outcome in told]


def expected(step):
    """The step, with a mark where it needs a program that may not be here."""
    marks = []
    if step.text.startswith("curl"):
        marks.append(pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl"))
    return pytest.param(step, id=str(step), marks=marks)


@pytest.mark.parametrize("step", [expected(step) for step in STEPS])
def test_the_command_works(journey, step):
    folder, outcomes = journey
    outcome = outcomes[step.number]
    failed = outcome.code not in ((0, 1) if step.text.startswith(ANSWERS) else (0,))
    if step.text.startswith("curl") and not failed:
        failed = "results" not in json.loads(outcome.text[outcome.text.index("{") :])
    assert not failed, f"{step.text} ended with {outcome.code}: {outcome.text}"
    assert not (step.text.startswith(ANSWERS) and "undecided" in outcome.text)
    assert (_entry(SAYS, step) or "") in outcome.text
    for path in _entry(MADE, step) or []:
        assert (folder / path).stat().st_size > 0


def test_the_server_ends_when_it_is_asked_to(journey):
    assert journey[1][-1].code == 0


def test_every_table_speaks_of_commands_that_are_there():
    for table in (SHORTER, MADE, SAYS, dict.fromkeys(ANSWERS)):
        for start in table:
            assert any(step.text.startswith(start) for step in STEPS), start


def test_the_readmes_run_has_the_files_recorded(journey):
    run = journey[0] / "runs/faces"
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    recorded("training-readme-files", sorted({re.sub(r"\d+", "N", file) for file in files}))
