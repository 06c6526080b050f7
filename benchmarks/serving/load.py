"""Many clients in one process: each asks, waits for the whole answer, and asks again.

    python benchmarks/serving/load.py PORT CLIENTS PROBES.npz

It waits for lines with a number of requests, opens the connections, makes so many requests over
them, and prints one line of JSON: seconds of all, of each, and what was wrong. The requests are put
together beforehand, and little is done per answer, so that the server has the processors.
"""

import asyncio
import json
import sys
import time

import numpy as np

MARK = b"arcset-benchmark"


def request(image: bytes, host: str) -> bytes:
    """One image to identify, as a form."""
    body = (
        b'--%s\r\nContent-Disposition: form-data; name="image"; filename="probe.jpg"\r\n'
        b"Content-Type: image/jpeg\r\n\r\n%s\r\n--%s--\r\n" % (MARK, image, MARK)
    )
    head = (
        f"POST /v1/identify HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: multipart/form-data; boundary={MARK.decode()}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Round:
    """So many requests, shared by the clients; number i asks for probe i, over and over."""

    def __init__(self, requests: list[bytes], names: list[str], first: int, count: int) -> None:
        self.requests, self.names = requests, names
        self.next, self.end = first, first + count
        self.seconds: list[float] = []
        self.wrong: list[str] = []
        self.missing = count
        self.over = asyncio.get_running_loop().create_future()

    def answered(self, number: int, head: bytes, body: bytes, seconds: float) -> None:
        self.seconds.append(seconds)
        if not head.startswith(b"HTTP/1.1 200 "):
            self.failed(f"{head[:40]!r} {body[:200]!r}")
        else:
            found = json.loads(body)["results"]
            if [one["subject"] for one in found] != [self.names[number % len(self.names)]]:
                self.failed(f"{self.names[number % len(self.names)]} became {found!r:.200}")
        self.counted()

    def failed(self, why: str) -> None:
        self.wrong.append(why)

    def counted(self) -> None:
        self.missing -= 1
        if not self.missing and not self.over.done():
            self.over.set_result(None)


class Asker(asyncio.Protocol):
    """One client."""

    def __init__(self, shared: Round) -> None:
        self.shared, self.got, self.number = shared, b"", None

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        shared = self.shared
        if shared.next == shared.end:
            self.number = None
            self.transport.close()
            return
        self.number, shared.next = shared.next, shared.next + 1
        self.began = time.perf_counter()
        self.transport.write(shared.requests[self.number % len(shared.requests)])

    def data_received(self, data: bytes) -> None:
        self.got += data
        head, mark, body = self.got.partition(b"\r\n\r\n")
        if not mark:
            return
        place = head.lower().index(b"content-length:") + 15
        if len(body) < int(head[place : place + 20].split(b"\r\n")[0]):
            return
        self.got = b""
        self.shared.answered(self.number, head, body, time.perf_counter() - self.began)
        self.ask()

    def connection_lost(self, error) -> None:
        if self.number is not None:  # in the middle of a request
            self.shared.failed(f"the connection was closed: {error}")
            self.shared.counted()
            self.number = None
            if not self.shared.over.done():
                reconnect(self.shared, self.transport.get_extra_info("peername"))


TASKS = set()


def reconnect(shared, address) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(loop.create_connection(lambda: Asker(shared), *address[:2]))
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)


async def main(port: int, clients: int, probes: str) -> None:
    with np.load(probes) as held:
        names = [str(name) for name in held["names"]]
        requests = [request(held[f"image{i}"].tobytes(), "127.0.0.1") for i in range(len(names))]
    loop, first = asyncio.get_running_loop(), 0
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        count = int(line)
        shared = Round(requests, names, first, count)
        began = time.perf_counter()
        for _ in range(min(clients, count)):
            await loop.create_connection(lambda: Asker(shared), "127.0.0.1", port)  # noqa: B023
        await shared.over
        spent = time.perf_counter() - began
        first += count
        told = {"spent": spent, "seconds": shared.seconds, "wrong": shared.wrong[:20]}
        print(json.dumps({**told, "failed": len(shared.wrong)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
