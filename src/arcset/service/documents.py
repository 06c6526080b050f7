"""What the OpenAPI document says about each route."""

from typing import Any

__all__ = ["described"]


def described(operation: str) -> dict[str, Any]:
    """Keywords for a route."""
    return {"operation_id": operation}
