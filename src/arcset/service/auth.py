"""Who may do what, decided from the headers of a request alone.

Each route is declared on the router of the role that it takes. What is on none of them does not
exist: the middleware asks here first.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from fastapi import APIRouter, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import Scope

from arcset.service.errors import ApiError
from arcset.service.keys import Keys

_FORWARDED = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")


class Caller(NamedTuple):
    """Who asks: read or write, and the id of the key if there was one."""

    role: str
    key_id: str | None = None


#: For the document only: by now the middleware has decided.
_BEARER = HTTPBearer(
    scheme_name="bearer", description="A key, where there are any.", auto_error=False
)

OPEN = APIRouter(tags=["open"])
READ = APIRouter(tags=["read"], dependencies=[Security(_BEARER)])
WRITE = APIRouter(tags=["write"], dependencies=[Security(_BEARER)])


class Access:
    """Decides who is let in.

    keys: if there are any, each request needs one; without, everybody on this machine may do
    everything. origins: of other pages that may ask. read_only: refuse all changes.
    """

    def __init__(self, keys: Keys, origins: Sequence[str], *, read_only: bool) -> None:
        self.keys, self.origins, self.read_only = keys, origins, read_only
        self._routes = [
            (route.path_regex, route.path, route.methods or set(), role)
            for role, router in (("open", OPEN), ("read", READ), ("write", WRITE))
            for route in router.routes
            if isinstance(route, APIRoute)
        ]

    def admit(self, scope: Scope) -> Caller:
        """Who asks, if they may; notes the route's path in the scope, for log and figures.

        Raises `ApiError`: not_found, method_not_allowed, unauthorized or forbidden.
        """
        needed = self._role_needed(scope)
        headers = Headers(scope=scope)
        self._check_page(scope["path"], headers)
        if needed == "open":
            return Caller("read")
        caller = self._caller(headers)
        if needed == "write" and caller.role != "write":
            raise ApiError("forbidden", "This key may only read.")
        if needed == "write" and self.read_only:
            message = "The service was started read-only: nothing can be changed."
            raise ApiError("forbidden", message)
        return Caller("read", caller.key_id) if self.read_only else caller

    def _role_needed(self, scope: Scope) -> str:
        allowed: set[str] = set()
        for pattern, path, methods, role in self._routes:
            if pattern.match(scope["path"]):
                scope["route_path"] = path
                if scope["method"] in methods:
                    return role
                allowed |= methods
        if not allowed:
            raise ApiError("not_found", "There is nothing at this path.")
        message = "This path does not support this method."
        raise ApiError("method_not_allowed", message, Allow=", ".join(sorted(allowed)))

    def _caller(self, headers: Headers) -> Caller:
        if not self.keys.required:
            self._check_local(headers)
            return Caller("write")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            given = headers.get("x-api-key", "")
        key = self.keys.find(given.strip())
        if key is None:
            message = "A key is needed: send it as `Authorization: Bearer KEY`."
            raise ApiError("unauthorized", message, WWW_Authenticate='Bearer realm="arcset"')
        return Caller(key.role, key.id)

    def _check_page(self, path: str, headers: Headers) -> None:
        """No other page asks, as for an image to show or count; a link may open the page itself.

        Browsers send these headers to https addresses and to this machine, and no script can set
        them.
        """
        if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
            return
        if headers.get("origin") in self.origins:
            return
        asked = path, headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        if asked != ("/", "navigate", "document"):
            raise _other_page()

    def _check_local(self, headers: Headers) -> None:
        """Whoever asks without a key is on this machine, and no page from elsewhere.

        Such a page could ask with the browser's help, or give this machine its name; and a proxy on
        this machine would make everybody local.
        """
        if any(name in headers for name in _FORWARDED):
            message = "Requests through a proxy need keys: create one with arcset keys add."
            raise ApiError("forbidden", message)
        host = headers.get("host", "")
        if not is_loopback(_host_of(f"//{host}")):
            message = "Without keys only this machine may ask, and as localhost or 127.0.0.1."
            raise ApiError("forbidden", message)
        origin = headers.get("origin")
        is_own = origin is None or origin.partition("://")[2].lower() == host.lower()
        if not is_own and origin not in self.origins:
            raise _other_page()


def _other_page() -> ApiError:
    return ApiError("forbidden", "Pages of other sites may not use this service: see --cors.")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


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
