"""Who asks, and whether they may: a dependency of every route."""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request

from arcset.service.access import OPEN, allowed, role_for
from arcset.service.errors import RefusalError
from arcset.service.service import Service
from arcset.service.telling import template_of

__all__ = ["authorize", "is_loopback"]

_FORWARDED = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")
_BEARER = 'Bearer realm="arcset"'


async def authorize(request: Request) -> None:
    """Let those in who may; `request.state.role` is theirs from then on.

    With keys, one of them decides. Without, everybody on this machine may do everything. Pages from
    elsewhere that a browser shows are refused either way, but for those that --cors names. Raises
    `RefusalError`: unauthorized or forbidden.
    """
    service: Service = request.app.state.service
    scope = request.scope
    _check_page(request, service)
    needed = role_for(scope["method"], template_of(scope))
    if needed == OPEN:
        return
    if not service.keys.required:
        _check_local(request, service)
        role = "write"
    else:
        key = service.keys.find(_given(request))
        if key is None:
            raise RefusalError(
                "unauthorized",
                "A key is needed: send it as `Authorization: Bearer KEY`.",
                WWW_Authenticate=_BEARER,
            )
        role = key.role
        scope["key_id"] = key.id
    if not allowed(role, needed):
        raise RefusalError("forbidden", "This key may read, and not change anything.")
    if service.read_only and needed == "write":
        raise RefusalError(
            "forbidden", "The service was started read-only: nothing can be changed."
        )
    request.state.role = "read" if service.read_only else role


def _given(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        return key.strip()
    return request.headers.get("x-api-key", "").strip()


def _check_page(request: Request, service: Service) -> None:
    """No other page asks, as for an image to show or to count; a link may open the page itself.

    Browsers send these headers to https addresses and to this machine, and no script can set them.
    """
    headers = request.headers
    if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
        return
    if headers.get("origin") in service.settings.cors:
        return
    asked = request.scope["path"], headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    if asked != ("/", "navigate", "document"):
        raise _other_page()


def _other_page() -> RefusalError:
    return RefusalError("forbidden", "Pages from elsewhere may not use this service: see --cors.")


def _check_local(request: Request, service: Service) -> None:
    """Whoever asks is on this machine, and no page from elsewhere.

    Such a page could ask with the browser's help, or give this machine its name; and a proxy on
    this machine would make everybody local.
    """
    if any(name in request.headers for name in _FORWARDED):
        raise RefusalError(
            "forbidden", "This came through a proxy, which needs keys: make one with arcset keys."
        )
    host = request.headers.get("host", "")
    if not is_loopback(_name(f"//{host}")):
        raise RefusalError(
            "forbidden", "Without keys only this machine is answered, under its own name: add keys."
        )
    origin = request.headers.get("origin")
    if origin is None or origin in service.settings.cors:
        return
    if urlsplit(origin).netloc.lower() != host.lower():
        raise _other_page()


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine alone.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "a.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
