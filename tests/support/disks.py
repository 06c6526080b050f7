"""Disks that are full: small file systems of their own."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size):
    """A file system of its own, in memory; skips where this user cannot mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def leave(disk, free):
    """Fill a disk up to so many free bytes, with a file called `others`."""
    others = disk / "others"
    others.unlink(missing_ok=True)
    others.write_bytes(bytes(shutil.disk_usage(disk).free - free))
