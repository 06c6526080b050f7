"""Milvus Lite as a server of its own, which several processes can ask."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager


class Server(str):
    """The address of a server, as `milvus://127.0.0.1:PORT`; its `process`."""

    process = None


@contextmanager
def milvus_server(folder):
    """A server, stopped in the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["server", "--data-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "milvus_lite", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, "the server has ended"
                time.sleep(0.1)
        server = Server(f"milvus://127.0.0.1:{port}")
        server.process = process
        yield server
    finally:
        process.terminate()
        process.wait(30)
