"""Running the command line in this process, as a user would type it."""

from dataclasses import dataclass

import pytest

from arcset.cli import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def arcset_command(capsys, monkeypatch, tmp_path):
    """Call with the words after `arcset`; runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(stopped.value.code or 0, captured.out, captured.err)

    return run
