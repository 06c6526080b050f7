"""What a service allows, decided once when it starts."""

from dataclasses import dataclass

from arcset.errors import OptionError

_RANGES: dict[str, tuple[float, float]] = {
    "max_body": (1 << 10, 1 << 30),
    "max_pixels": (1, 178_956_970),
    "max_images": (1, 1024),
    "max_requests": (1, 4096),
    "workers": (1, 64),
    "body_seconds": (0.05, 3600),
}


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Limits and choices of a running service.

    Fields:
        max_body: bytes of a request.
        max_pixels: width × height of an image, looked at before it is decoded.
        max_images: of one request.
        max_requests: that are answered or wait at the same time; further ones are refused as busy.
        workers: batches that are computed side by side.
        body_seconds: how long a request's headers, and then its body, may take to arrive.
        read_only: refuse all changes of the gallery.
        cors: origins of other pages that may ask, as https://example.org; none by default.
        log: whether every request is logged, or only what went wrong.

    Raises `OptionError` for a limit out of range.
    """

    max_body: int = 16 << 20
    max_pixels: int = 20_000_000
    max_images: int = 64
    max_requests: int = 128
    workers: int = 1
    body_seconds: float = 30.0
    read_only: bool = False
    cors: tuple[str, ...] = ()
    log: bool = True

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise OptionError(f"{name}={value:g}, expected {low:g} to {high:g}")
        for origin in self.cors:
            scheme, mark, host = origin.partition("://")
            if scheme not in ("http", "https") or not mark or not host or "/" in host:
                raise OptionError(
                    f"{origin!r} is no origin, expected scheme and host as https://example.org"
                )

    @property
    def max_held(self) -> int:
        """Bytes of all bodies together that are held in memory."""
        return max(4 * self.max_body, 64 << 20)

    @property
    def limits(self) -> dict[str, int]:
        """The limits that a client has to know."""
        names = ("max_body", "max_pixels", "max_images", "max_requests")
        return {name: getattr(self, name) for name in names}
