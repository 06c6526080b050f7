"""Pages, pictures and films of a frozen run: what they are called, and every caption in them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contract.pages import card, drawing, outline, typed, without_numbers, write_stills
from contract.recording import recorded

FROZEN = Path(__file__).parent / "frozen"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the user is: a copy of the frozen run and of its data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(FROZEN, tmp_path, dirs_exist_ok=True)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_report_and_the_card_of_a_training(folder):
    """It goes on from the frozen run, and hardly moves: figures may decide what is said."""
    typed("train images.npz --from run --out grown --epochs 1 --learning-rate 1e-6 --device cpu")
    page = outline(folder / "grown" / "report.html")
    page["grown"] = [without_numbers(line) for line in page["grown"]]
    worst = "The worst confusions of the unseen"
    page[worst] = [line for line in page[worst] if not line.startswith(("[", "p"))]  # no pairs
    recorded("pictures-training", page)
    recorded("pictures-card", card(folder / "grown" / "README.md"))


def test_the_stills_of_a_run(folder):
    with drawing() as drawn:
        write_stills(folder / "run", folder / "told")
    page = outline(folder / "told" / "report.html")
    files = names(folder / "told" / "pictures")
    recorded("pictures-stills", {**page, "files": files, "words": drawn.words})


def test_the_report_of_an_evaluation(folder):
    """Against itself, so that there is something to compare."""
    with drawing() as drawn:
        typed("evaluate run --against run --device cpu")
    page = outline(folder / "run" / "evaluation" / "report.html")
    files = names(folder / "run" / "evaluation" / "pictures")
    recorded("pictures-evaluation", {**page, "files": files, "words": drawn.words})


def test_the_report_of_an_evaluation_that_lacks_something(folder):
    """One image of everybody: no two are the same, and no probability is tried."""
    data = np.load(folder / "images.npz")
    rows = data["images"].reshape(len(data["images"]), -1) / 255 - 0.5
    np.savez("single.npz", embeddings=rows[:500:5], labels=data["labels"][:500:5])
    np.savez("tune.npz", embeddings=rows[500:], labels=data["labels"][500:])
    typed("evaluate single.npz --validation tune.npz --no-intervals")
    page = outline(folder / "single-evaluation" / "report.html")
    page["Not measured"] = page["Not measured"][::2]  # what, and not why
    files = names(folder / "single-evaluation" / "pictures")
    recorded("pictures-evaluation-of-little", {**page, "files": files})


@pytest.fixture
def photos(folder):
    """Five people, one of them once in another's folder, and a stranger."""
    data = np.load(folder / "images.npz")
    people = {
        str(name): data["images"][data["labels"] == name] for name in data["labels"][:1000:200]
    }
    first, second, *_ = people
    people["stranger"] = people[first][:1, ::-1]
    people[second] = [*people[second], people[first][0]]
    for name, images in people.items():
        (folder / "photos" / name).mkdir(parents=True)
        for number, image in enumerate(images):
            Image.fromarray(image).save(folder / "photos" / name / f"{number}.png")
    return folder / "photos"


def test_the_page_of_groups(folder, photos):
    typed("cluster photos --model run --out groups --device cpu")
    assert names(folder / "groups") == ["groups.csv", "groups.html", "groups.json"]
    page = outline(folder / "groups" / "groups.html")
    title = "Who is who in photos"
    recorded("pictures-groups", {**page, title: [without_numbers(line) for line in page[title]]})


def test_the_contact_sheet_of_data(folder, photos):
    with drawing() as drawn:
        typed("data check photos --sheet sheet.png")
    recorded("pictures-sheet", drawn.words)


def test_one_sample_explained(folder):
    with drawing() as drawn:
        said = typed("explain run 3 --picture three.png").splitlines()
    lines = [without_numbers(line) for line in said if "  " not in line]  # no rows of the table
    recorded("pictures-explanation", {"lines": lines, "words": drawn.words})
    with Image.open(folder / "three.png") as picture:
        assert min(picture.size) > 300


def test_a_film(folder):
    """Four epochs of the frozen run were kept."""
    with drawing() as drawn:
        typed("film run --out film.gif --parts train,test --fps 2 --width 300")
    recorded("pictures-film", drawn.words)
    with Image.open(folder / "film.gif") as film:
        assert film.width == 300
        assert film.n_frames > 4
        first = np.array(film.convert("RGB"))
        film.seek(film.n_frames - 1)
        assert (np.array(film.convert("RGB")) != first).any()


@pytest.mark.long
def test_the_demo(folder):
    """All losses, one epoch long."""
    typed("demo --epochs 1 --seeds 1 --device cpu --out demo")
    page = outline(folder / "demo" / "report.html")
    first = page["headings"][1]
    page[first] = [line for line in page[first] if not line.startswith("What to make of it:")]
    files = {"demo": names(folder / "demo"), "pictures": names(folder / "demo" / "pictures")}
    recorded("pictures-demo", {**page, **files})
