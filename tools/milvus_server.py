"""A real Milvus on this machine, for tests and benchmarks: no container, no root.

    python tools/milvus_server.py [--data FOLDER]

The first line says where it is and the number of its process; it runs until its standard input
ends. The package `milvus` from PyPI, which holds the whole standalone server, is installed once
into a virtual environment of its own. Data stay in FOLDER, so that a server that was killed can be
started again on the same; without FOLDER they go in the end.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

VERSION = "2.3.5"

#: What runs in the server's own environment.
RUN = """
import json, os, socket, sys
from milvus import MilvusServer, MilvusServerConfig
# Its own trial refuses, for a minute, ports that a killed server had; this takes them.
MilvusServerConfig.try_bind_port = lambda _, port: socket.create_server(("127.0.0.1", port))
folder, etcd = sys.argv[1], sys.argv[2]
ports = json.loads(sys.argv[3])
os.environ["ETCD_CONFIG_PATH"] = etcd
server = MilvusServer(MilvusServerConfig(data_dir=folder, **ports))
server.webservice_port = ports["web"]
for node in ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode"):
    server.config.set(f"{node}.ip", "127.0.0.1")
server.start()
print("milvus://127.0.0.1:%d" % ports["proxy_port"], server.server_proc.pid, flush=True)
sys.stdin.read()
server.stop()
"""

PORTS = [
    "web", "peer", "etcd_port", "proxy_port", "proxy_internal_port", "root_coord_port",
    "query_coord_port", "query_node_port", "index_coord_port", "index_node_port",
    "data_coord_port", "data_node_port",
]  # fmt: skip


def free_ports():
    """A port for each of those that Milvus listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in PORTS]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return {name: probe.getsockname()[1] for name, probe in zip(PORTS, probes, strict=True)}


def write_settings(folder):
    """Ports, and etcd's settings: the same when the server is started again."""
    path, etcd = folder / "ports.json", folder / "etcd.yaml"
    if not path.exists():
        ports = free_ports()
        client, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd_port", "peer"))
        etcd.write_text(
            f"listen-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\n"
            f"initial-cluster: default={peer}\n",
            encoding="utf-8",
        )
        path.write_text(json.dumps(ports), encoding="utf-8")
    return path.read_text(encoding="utf-8"), etcd


@contextmanager
def running_server(folder):
    """A server whose data are in a folder: its address and the number of its process."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--data", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address, _, number = process.stdout.readline().partition(" ")
        if not number:
            raise OSError(f"Milvus cannot be started: {process.communicate()[1][-500:]}")
        yield address, int(number)
    finally:
        process.communicate()


def main():
    """Run the server until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the data; a temporary one if left out")
    options = parser.parse_args()
    from environments import python_with  # beside this file, which is run here and not imported

    python = python_with(f"milvus-{VERSION}", f"milvus=={VERSION}")
    with ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        ports, etcd = write_settings(folder)
        subprocess.run([python, "-c", RUN, folder, etcd, ports], check=True)


if __name__ == "__main__":
    main()
