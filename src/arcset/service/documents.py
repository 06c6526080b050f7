"""What the OpenAPI document says about each route."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from arcset.service.access import OPEN, role_for
from arcset.service.errors import STATUS
from arcset.service.schemas import SCHEMAS, TEXT, Schema, ref

__all__ = ["described", "document"]

_IMAGE_FILE: Schema = {"type": "string", "format": "binary", "description": "An image file."}
_IMAGE_TEXT: Schema = {
    "type": "string",
    "format": "byte",
    "contentEncoding": "base64",
    "description": "An image file as base64, or as a data: URL. Other URLs are not followed.",
}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 256}
_COSINE: Schema = {"type": "number", "minimum": -1, "maximum": 1}
_RATE: Schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_CANDIDATES: Schema = {"type": "integer", "minimum": 1, "maximum": 100, "default": 5}
_WORDS = {
    400: "The request cannot be read, or a value is out of range.",
    401: "No key, or an unknown one.",
    403: "The key may not do this.",
    404: "There is no such thing.",
    405: "This address does not take this method.",
    408: "The request took too long to arrive.",
    409: "It does not go with what is there.",
    413: "The request has too many bytes.",
    415: "Neither a form nor JSON.",
    422: "An image that cannot be read, or a rate that the calibration does not support.",
    429: "Too much to do: come again after Retry-After seconds.",
    431: "The headers are too large.",
    500: "Something went wrong within the service.",
    503: "The service stops, or its gallery cannot be used.",
}


def described(operation: str) -> dict[str, Any]:
    """Keywords for a route, whose description is in `document`."""
    return {"operation_id": operation, "response_model": None}


def document(app: FastAPI) -> dict[str, Any]:
    """What this service understands, as OpenAPI 3.1."""
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        openapi_version="3.1.0",
    )
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            _complete(operation, method.upper(), path)
    made.setdefault("components", {})["schemas"] = SCHEMAS
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A key, where there are any."}
    }
    return made


def _complete(operation: dict[str, Any], method: str, path: str) -> None:
    known = _OPERATIONS.get(operation["operationId"], {})
    responses = operation["responses"]
    for status in ("200", "201"):
        if status in responses and "answer" in known:
            responses[status]["content"] = known["answer"]
    for parameter in operation.get("parameters", []):
        if parameter["name"] in _PATH_PARAMETERS:
            parameter["schema"] = _PATH_PARAMETERS[parameter["name"]]
    operation.setdefault("parameters", []).extend(known.get("query", []))
    for number in sorted(set(STATUS.values())):
        responses[str(number)] = {"description": _WORDS[number], "content": _json("Error")}
    if "body" in known:
        operation["requestBody"] = {"required": True, "content": known["body"]}
    role = role_for(method, path)
    operation["security"] = [] if role == OPEN else [{"bearer": []}]
    operation["x-role"] = role


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": ref(name)}}


def _query(name: str, schema: Schema, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": text,
    }


def _shape(required: list[str], fields: dict[str, Schema], **more: Any) -> dict[str, Any]:
    return {
        "schema": {
            "type": "object",
            "properties": fields,
            "required": required,
            "additionalProperties": False,
            **more,
        }
    }


def _images(*required: str, **fields: Schema) -> dict[str, Any]:
    """A body with images: as a form, or as JSON."""
    files = {"type": "array", "items": _IMAGE_FILE, "minItems": 1, "maxItems": 64}
    texts = {"type": "array", "items": _IMAGE_TEXT, "minItems": 1, "maxItems": 64}
    return {
        "multipart/form-data": _shape(["image", *required], {"image": files, **fields}),
        "application/json": _shape(["images", *required], {"images": texts, **fields}),
    }


def _pair() -> dict[str, Any]:
    """Two images, or one and a subject."""
    limits = {"far": _RATE, "threshold": _COSINE}

    def either(image: Schema) -> dict[str, Any]:
        two = _shape(["a", "b"], {"a": image, "b": image, **limits})["schema"]
        one = _shape(["image", "subject"], {"image": image, "subject": _NAME, **limits})["schema"]
        return {"schema": {"oneOf": [two, one]}}

    return {"multipart/form-data": either(_IMAGE_FILE), "application/json": either(_IMAGE_TEXT)}


_FPIR = _query("fpir", _RATE, "The share of strangers that may be taken for somebody.")
_THRESHOLD = _query("threshold", _COSINE, "A cosine instead of a rate.")
_PATH_PARAMETERS: dict[str, Schema] = {
    "name": _NAME,
    "sample": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
}
_OPERATIONS: dict[str, dict[str, Any]] = {
    "embed": {"body": _images(), "answer": _json("Embeddings")},
    "verify": {
        "body": _pair(),
        "query": [_query("far", _RATE, "The rate of false “same” that is wanted."), _THRESHOLD],
        "answer": _json("Verification"),
    },
    "identify": {
        "body": _images(fpir=_RATE, threshold=_COSINE, candidates=_CANDIDATES),
        "query": [_FPIR, _THRESHOLD, _query("candidates", _CANDIDATES, "How many are listed.")],
        "answer": _json("Identified"),
    },
    "list_subjects": {
        "query": [
            _query(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
                "How many at most.",
            ),
            _query("after", TEXT, "The last name of the page before: its `next`."),
            _query("search", TEXT, "A part of the name, in small or capital letters."),
        ],
        "answer": _json("Subjects"),
    },
    "enroll": {"body": _images("name", name=_NAME), "answer": _json("Enrolled")},
    "show_subject": {"answer": _json("Subject")},
    "rename": {
        "body": {"application/json": _shape(["name"], {"name": _NAME})},
        "answer": _json("Renamed"),
    },
    "remove": {"answer": _json("Removed")},
    "list_samples": {"answer": _json("Samples")},
    "add_samples": {"body": _images(), "answer": _json("Enrolled")},
    "remove_sample": {"answer": _json("Removed")},
    "sample_image": {
        "query": [
            _query(
                "size",
                {"type": "integer", "minimum": 16, "maximum": 256, "default": 256},
                "Pixels of the longer side, at most.",
            )
        ],
        "answer": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/png", "image/jpeg")
        },
    },
    "threshold": {"query": [_FPIR], "answer": _json("Threshold")},
    "gallery": {"answer": _json("Gallery")},
    "health": {"answer": _json("Status")},
    "ready": {"answer": _json("Status")},
    "metrics": {"answer": {"text/plain": {"schema": TEXT}}},
}
