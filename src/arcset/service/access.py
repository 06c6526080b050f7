"""Which role every route takes. A route that is not listed here takes the highest one."""

__all__ = ["ACCESS", "OPEN", "allowed", "role_for"]

OPEN = "open"

#: (method, template) → open, read or write. HEAD is as GET.
ACCESS = {
    ("GET", "/"): OPEN,
    ("GET", "/page/{name}"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/metrics"): "read",
    ("GET", "/openapi.json"): "read",
    ("POST", "/v1/embed"): "read",
    ("POST", "/v1/verify"): "read",
    ("POST", "/v1/identify"): "read",
    ("GET", "/v1/gallery"): "read",
    ("GET", "/v1/threshold"): "read",
    ("GET", "/v1/subjects"): "read",
    ("POST", "/v1/subjects"): "write",
    ("GET", "/v1/subjects/{name}"): "read",
    ("PATCH", "/v1/subjects/{name}"): "write",
    ("DELETE", "/v1/subjects/{name}"): "write",
    ("GET", "/v1/subjects/{name}/samples"): "read",
    ("POST", "/v1/subjects/{name}/samples"): "write",
    ("DELETE", "/v1/samples/{sample}"): "write",
    ("GET", "/v1/samples/{sample}/image"): "read",
    ("GET", "/v1/views"): "read",
    ("GET", "/v1/views/{id}"): "read",
}


def role_for(method: str, template: str) -> str:
    """open, read or write."""
    return ACCESS.get(("GET" if method == "HEAD" else method, template), "write")


def allowed(role: str, needed: str) -> bool:
    """Whether somebody with this role may do what needs the other.

    >>> allowed("read", "write"), allowed("write", "read")
    (False, True)
    """
    return needed == OPEN or role == "write" or role == needed
