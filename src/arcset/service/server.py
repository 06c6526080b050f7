"""One process that listens, and stops without losing anything."""

import asyncio
import contextlib
import logging
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from arcset.errors import OptionError
from arcset.service.access_log import log_line
from arcset.service.auth import is_loopback
from arcset.service.keys import Keys
from arcset.service.protocol import limited_protocol
from arcset.service.service import Service

__all__ = ["check_exposure", "listen", "run"]

_KEEP_ALIVE = 75  # seconds: longer than a proxy's, so that it is the proxy who closes
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def check_exposure(host: str, keys: Keys) -> None:
    """Raises `OptionError` for an address that others reach, where there are no keys."""
    if not is_loopback(host) and not keys.required:
        raise OptionError(
            f"--host {host} lets others reach the gallery, and there is no key yet: make one with "
            f"`arcset keys add`"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes a free one. Raises `OptionError` where that fails."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(kind, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        why = getattr(error, "strerror", None) or error
        raise OptionError(f"cannot listen at {host}, port {port}: {why}") from None
    return bound


def run(app: FastAPI, bound: socket.socket, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT, then answer what is there, and return."""
    service: Service = app.state.service
    _keep_quiet()
    config = uvicorn.Config(
        app,
        http=limited_protocol(service.settings.body_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",  # access_log.py says what there is to say
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=1,  # `_end` has waited for all that matters
        backlog=512,
    )
    _Server(config, service, started).run(sockets=[bound])


def _keep_quiet() -> None:
    """Libraries quote what they cannot read, which may be somebody's; the log tells the kind."""
    for name in ("python_multipart", "PIL"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.showwarning = lambda message, category, *_, **__: log_line(
        "warning", kind=category.__name__
    )


class _Server(uvicorn.Server):
    """Ends in two steps: nothing new is taken, and then, when all is answered, nobody listens."""

    def __init__(
        self, config: uvicorn.Config, service: Service, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.service, self.announce = service, started
        self._ending: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stopping on a signal is a good end: the process exits with 0."""
        loop = asyncio.get_running_loop()

        def stop(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._stop)

        before = {number: signal.signal(number, stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self) -> None:
        if self.service.stopping:  # told twice
            self.force_exit = self.should_exit = True
            return
        self.service.stopping = True
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        loop: Any = asyncio.get_running_loop()
        deadline = loop.time() + self.service.settings.stop_seconds
        while self.service.in_flight and loop.time() < deadline:
            await asyncio.sleep(0.02)
        self.should_exit = True
