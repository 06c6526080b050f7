"""A page's commands in their order, in one folder, each as it stands there.

    steps = steps_of(README)
    with Journey(folder) as journey:
        outcomes = [journey.take(step) for step in steps]

No step keeps the others from being taken: what failed is found in its outcome.
"""

import contextlib
import fcntl
import io
import json
import os
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server, forked, free_port, started

__all__ = ["ROOT", "Journey", "Outcome", "Step", "blocks", "once", "steps_of"]

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8321"
SHELL, PYTHON = ("", "sh", "console"), ("python", "py")
PROGRAMS = ("arcset", "curl", "docker", "make", "pip", "python", "rm", "sqlite3", "torchrun")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 600


@dataclass(frozen=True)
class Step:
    """A command for the shell, or a piece of Python, by its place on the page."""

    page: str
    number: int
    text: str
    is_python: bool = False

    def __str__(self) -> str:
        first = self.text if not self.is_python else "python"
        return f"{self.page}-{self.number:02d} {' '.join(first.split())[:50]}"


@dataclass(frozen=True)
class Outcome:
    """How a step ended: its exit code, and all that it wrote."""

    code: int
    text: str


def blocks(page: Path, *languages: str) -> list[str]:
    """What stands between fences in one of these languages."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [block for language, block in found if language in languages]


def steps_of(page: Path) -> list[Step]:
    """Every command and every piece of Python; folders, tables and files shown are none."""
    steps: list[tuple[str, bool]] = []
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in PYTHON:
            steps.append((block, True))
        elif language in SHELL:
            steps += [(command, False) for command in _commands(block)]
    return [Step(page.name, number, *step) for number, step in enumerate(steps)]


def _commands(block: str) -> list[str]:
    """The lines to be typed: all, or where the answers are shown as well, those after a $."""
    lines = block.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        return [line[2:] for line in lines if line.startswith("$ ")]
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    return lines if lines and lines[0].split()[0] in PROGRAMS else []


@dataclass
class Journey:
    """Takes steps in `folder`.

    apart: whether `arcset` and Python are a process each time, as a user's are, or are called in
        this one, which saves the seconds that imports take.
    environment: variables that are set for all steps.
    """

    folder: Path
    apart: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    server: Server | None = None

    def __enter__(self) -> "Journey":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """End the server, if there is one, as a service manager would; its exit code."""
        server, self.server = self.server, None
        return 0 if server is None else server.stop()

    def take(self, step: Step, text: str | None = None) -> Outcome:
        """Do what the step says, or a shorter `text` in place of it."""
        text = step.text if text is None else text
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setenv("COLUMNS", "120")
            for name, value in self.environment.items():
                patch.setenv(name, value)
            if step.is_python:
                return self._python(text)
            words = shlex.split(text, comments=True)
            if words[:2] == ["arcset", "serve"]:
                return self._serve(words[2:])
            if words[0] == "arcset" and not self.apart:
                return _here(words[1:])
            return self._shell(text)

    def _python(self, text: str) -> Outcome:
        text = self._addressed(text)
        if self.apart:
            (self.folder / "document.py").write_text(text, encoding="utf-8")
            return self._shell("python document.py")
        code = compile(text, "document", "exec")
        return _captured(lambda: exec(code, {}))

    def _serve(self, words: Sequence[str]) -> Outcome:
        """At a free port, where the page's may be taken."""
        self.stop()
        gallery = self.folder / words[0]
        self.server = (started if self.apart else forked)(gallery, *words[1:])
        try:
            self.server.wait()
        except AssertionError as error:
            self.server = None
            return Outcome(2, str(error))
        return Outcome(0, self.server.written())

    def _shell(self, text: str) -> Outcome:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "-c", self._addressed(text)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        return Outcome(done.returncode, done.stdout)

    def _addressed(self, text: str) -> str:
        """With the address of the server that runs, or one where there is none."""
        port = free_port() if self.server is None else self.server.port
        return text.replace(ADDRESS, f"http://127.0.0.1:{port}")


def _here(words: Sequence[str]) -> Outcome:
    from arcset.cli import main

    return _captured(lambda: main(list(words)))


def _captured(work: Callable[[], object]) -> Outcome:
    written, code = io.StringIO(), 0
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        try:
            work()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        except Exception:
            code = 1
            traceback.print_exc()
    return Outcome(code, written.getvalue())


def once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]
) -> tuple[Path, Any]:
    """A folder and what `make(folder)` said, as JSON holds it; made by one of pytest's workers."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, told = root / name, root / f"{name}.json"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            folder.mkdir()
            told.write_text(json.dumps(make(folder)), encoding="utf-8")
    return folder, json.loads(told.read_text(encoding="utf-8"))
