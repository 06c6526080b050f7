"""The guides' commands in their order, each guide in a folder of its own, on made-up people.

As with the README, nothing is put in by hand: a command finds what those before it have made. What
cannot be done here, what is done in a shorter way, what answers with another exit code than 0 and
what does not work yet stands in one table each.
"""

import json
import re
import shlex
import shutil

import pytest
from PIL import Image

from contract.journey import ROOT, Journey, Outcome, Step, blocks, once, steps_of
from contract.people import GUESTS, NAMES, save_people, save_photo

#: Guides of Python alone: tests/test_python_guides.py runs them.
PYTHON = ("own-loop.md", "python.md")
GUIDES = [page for page in sorted((ROOT / "docs/guides").glob("*.md")) if page.name not in PYTHON]
STEPS = [step for guide in GUIDES for step in steps_of(guide)]
KEY_ID = "1f0c93ab"  # in serve.md; real ones are random

#: What is left out, by page and beginning, and why.
LEFT_OUT = {
    ("embed-at-scale.md", "# pool.py"): "tests/recognition/test_embedder.py runs it",
    ("embed-at-scale.md", "# ray_embed.py"): "tests/recognition/test_embedder.py runs it",
    ("embed-at-scale.md", "# spark_embed.py"): "tests/recognition/test_embedder.py runs it",
    ("embed-at-scale.md", "# folder.py"): "tests/recognition/test_embedder.py runs it",
    ("embed-at-scale.md", "python benchmarks/embed.py"): "a benchmark; tests/benchmarks tries it",
    ("milvus.md", "pip install"): "wants an index of packages",
    ("milvus.md", "curl -LO https://github.com"): "a download",
    ("milvus.md", "docker compose"): "wants Docker and a download",
    ("milvus.md", "arcset enroll milvus://localhost"): "wants a server of Milvus",
    ("milvus.md", "arcset gallery import milvus://host"): "wants a server of Milvus",
    ("recognize.md", "arcset export face_recognition_sface"): "wants a model from elsewhere",
    ("recognize.md", "arcset enroll people.db photos/ --model sface.onnx"): "wants that model",
    ("recognize.md", "arcset gallery calibrate people.db others/"): "wants that model",
    ("recognize.md", "arcset identify people.db party.jpg"): "wants that model, and real faces",
    ("recognize.md", "# faces.py"): "tests/recognition/faces/test_recognizer.py runs it",
    ("serve.md", "pip install"): "wants an index of packages",
    ("which-threshold.md", "arcset calibrate face_recognition"): "wants a model from elsewhere",
    ("which-threshold.md", "arcset verify sface.onnx"): "wants that model",
    ("which-threshold.md", "arcset verify plain.onnx"): "wants that model",
    ("serve.md", "arcset serve people.db --host 0.0.0.0"): "opens this machine to others",
}
#: What is typed instead.
SHORTER = {
    ("embed-at-scale.md", "torchrun --nproc-per-node 8 --max-restarts"): (
        "8 --max-restarts 3",
        "2 --max-restarts 0",
    ),
    ("embed-at-scale.md", "torchrun --nproc-per-node 8"): ("-node 8", "-node 2"),
    ("long-runs.md", "torchrun --nproc-per-node 8"): ("-node 8", "-node 2"),
    ("serve.md", "arcset enroll"): ("--model", "--keep-images --model"),  # as its remark says
    ("train-your-own.md", "arcset compare"): ("--seeds 3", "--seeds 1"),
}
#: Exit codes other than 0 that the guide speaks of.
CODES = {
    ("recognize.md", "arcset verify"): (0, 1),
    ("which-threshold.md", "arcset verify"): (0, 1),
    ("which-threshold.md", "arcset identify"): (0, 1),
    ("embed-at-scale.md", "arcset identify"): (0, 1),
    ("milvus.md", "arcset identify"): (0, 1),
    ("plan.md", "arcset plan"): (0, 1),
    ("train-your-own.md", "arcset data check faulty/"): (1,),
}
#: What does not work yet: why, and a word of what it says.
GAPS = {
    ("embed-at-scale.md", "torchrun --nproc-per-node 8 --max-restarts"): (
        "another list of inputs than that which the folder was begun with",
        "was begun with 120 inputs of photos",
    ),
    ("serve.md", 'curl -H "Authorization: Bearer $KEY" -F image=@visitor.png -F image=@stranger'): (
        "the calibration of a small run supports no FPIR, and the guide asks for one",
        "support no FPIR",
    ),
}


class KnownGapError(AssertionError):
    """A step that is known not to work fails as it is known to."""


def entry(table, step):
    """What a table says of a step, or None."""
    found = (
        value
        for (page, start), value in table.items()
        if page == step.page and step.text.startswith(start)
    )
    return next(found, None)


def prepare(folder):
    """Photos and runs that the guides take for granted, by the names that they give them."""
    save_people(folder / "faces", NAMES, each=7)
    save_people(folder / "photos", GUESTS, each=2)
    paths = sorted(path.relative_to(folder) for path in (folder / "photos").rglob("*.jpg"))
    rows = ["path,label", *(f"{path},{path.parent.name}" for path in paths)]
    (folder / "photos.csv").write_text("\n".join(rows) + "\n")
    save_people(folder / "others", [f"other {number}" for number in range(100)], each=3)
    for number, file in enumerate(["a", "b", "visitor", "anna-1", "anna-2"], 10):
        save_photo(folder / f"{file}.jpg", "anna", number)
        save_photo(folder / f"{file}.png", "anna", number)
    for file in ("carla-1", "carla-2", "zoe-1", "zoe-2", "zoe-3", "stranger"):
        name, _, number = file.partition("-")
        save_photo(folder / f"{file}.png", name, int(number or 0))
    signs = [f"sign {number:03d}" for number in range(210)]
    save_people(folder / "signs", signs[:180], each=4)
    save_people(folder / "known", signs[180:200], each=3)
    for name in signs[197:203]:
        save_photo(folder / f"probes/{name}.png", name, 10)
    (mapping,) = blocks(ROOT / "docs/guides/long-runs.md", "json")
    (folder / "mapping.json").write_text(mapping, encoding="utf-8")
    faulty(folder)
    with Journey(folder) as journey:
        for words in (
            "train faces/ --out runs/faces --epochs 2 --size 32",
            "train faces/ --out runs/better --epochs 2 --size 32 --seed 1",
            "train signs/ --out runs/omniglot --epochs 2 --size 32",
            "enroll people.db photos/ --model runs/faces",
        ):
            done = journey.take(Step("preparation", 0, f"arcset {words}"))
            assert done.code == 0, done.text


def faulty(folder):
    """The five faults that train-your-own.md speaks of."""
    place = shutil.copytree(folder / "faces", folder / "faulty")
    shutil.copy(place / "person 09/0.jpg", place / "person 10/11.jpg")
    short = place / "person 11/2.jpg"
    short.write_bytes(short.read_bytes()[:300])
    Image.new("RGB", (40, 40)).save(place / "person 12/3.jpg")
    shutil.copy(place / "person 13/0.jpg", place / "stray.jpg")
    (place / "notes.txt").write_text("taken in May\n")


def typed(step):
    """The step, shorter where a table says so or where it trains."""
    change = entry(SHORTER, step)
    text = step.text if change is None else step.text.replace(*change)
    if re.search(r"arcset (train|compare) faces/", text):
        size = "" if " size=" in text else "--set size=32" if "compare" in text else "--size 32"
        text = re.sub(r"(\s+#.*)?$", f" --epochs 2 {size}", text, count=1)
    return text


def travelled(page, folder):
    """All steps of a guide that can be taken, whatever becomes of those before."""
    outcomes = {}
    (folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
    with Journey(folder, environment={"CURL_HOME": str(folder)}) as journey:
        for step in [one for one in STEPS if one.page == page and not entry(LEFT_OUT, one)]:
            text = typed(step)
            if "$KEY" in text and "KEY" not in journey.environment:
                journey.environment["KEY"] = key(journey)
            if KEY_ID in text:
                text = text.replace(KEY_ID, first_key(folder))
            make_way(text, folder)
            outcome = journey.take(step, text)
            outcomes[str(step.number)] = (outcome.code, outcome.text)
    return outcomes


def key(journey):
    """A key of those that may do everything, for the calls that the guide makes with one."""
    made = journey.take(Step("", 0, "arcset keys add people.db --role write --json"))
    return json.loads(made.text)["key"]


def first_key(folder):
    """The id of the key that the guide takes away again."""
    return json.loads((folder / "people.db.keys.json").read_text())["keys"][0]["id"]


def make_way(text, folder):
    """The guides train the same run in several ways, each of which wants its folder free."""
    words = shlex.split(text, comments=True)
    if "train" in words and "--out" in words and "--continue" not in words:
        shutil.rmtree(folder / words[words.index("--out") + 1], ignore_errors=True)


@pytest.fixture(scope="module")
def journeys(tmp_path_factory):
    """A function from the name of a guide to the outcomes of its steps."""

    def travel(page):
        prepared, _ = once(tmp_path_factory, "guides", prepare)

        def make(folder):
            shutil.copytree(prepared, folder, dirs_exist_ok=True)
            if page != "milvus.md":  # which moves a gallery; the others make one
                (folder / "people.db").unlink()
            return travelled(page, folder)

        return once(tmp_path_factory, f"guide-{page}", make)[1]

    return travel


def expected(step):
    """The step, with a mark where it is known to fail."""
    gap = entry(GAPS, step)
    marks = [pytest.mark.xfail(reason=gap[0], raises=KnownGapError, strict=True)] if gap else []
    program = step.text.split()[0]
    if program in ("curl", "sqlite3"):
        missing = shutil.which(program) is None
        marks.append(pytest.mark.skipif(missing, reason=f"there is no {program}"))
    return pytest.param(step, id=str(step), marks=marks)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("step", [expected(step) for step in STEPS if not entry(LEFT_OUT, step)])
def test_the_command_works(journeys, step):
    outcome = Outcome(*journeys(step.page)[str(step.number)])
    if outcome.code in (entry(CODES, step) or (0,)):
        return
    _, word = entry(GAPS, step) or ("", "")
    if word and word in outcome.text:
        raise KnownGapError(outcome.text)
    raise AssertionError(f"{step.text} ended with {outcome.code}: {outcome.text}")


@pytest.mark.parametrize("table", [LEFT_OUT, SHORTER, CODES, GAPS])
def test_every_table_speaks_of_commands_that_are_there(table):
    for page, start in table:
        assert any(one.page == page and one.text.startswith(start) for one in STEPS), start
