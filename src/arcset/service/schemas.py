"""The shapes of answers, as the OpenAPI document has them."""

from typing import Any

from arcset.recognition.decisions import ABOVE, BELOW, EMPTY

__all__ = ["SCHEMAS", "TEXT", "Schema", "listed", "nullable", "record", "ref"]

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
TRUTH: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}


def ref(name: str) -> Schema:
    """One of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """Many of it."""
    return {"type": "array", "items": schema}


def one_of(*texts: str) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(texts)}


def record(**fields: Schema) -> Schema:
    """An object that has all of these fields, and no other."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


_ERROR = record(code=TEXT, message=TEXT)

SCHEMAS: dict[str, Schema] = {
    "Error": record(error=record(code=TEXT, message=TEXT, request_id=TEXT)),
    "Status": record(status=TEXT),
    "Embeddings": record(model=TEXT, digest=TEXT, dim=WHOLE, embeddings=listed(listed(NUMBER))),
    "Verification": record(
        same=TRUTH,
        cosine=NUMBER,
        probability=nullable(NUMBER),
        threshold=NUMBER,
        far=nullable(NUMBER),
        reason=one_of(ABOVE, BELOW),
        rough=TRUTH,
        note=TEXT,
        decided=TRUTH,
    ),
    "Candidate": record(subject=TEXT, cosine=NUMBER, probability=nullable(NUMBER)),
    "Match": record(
        subject=nullable(TEXT),
        cosine=nullable(NUMBER),
        probability=nullable(NUMBER),
        threshold=NUMBER,
        candidates=listed(ref("Candidate")),
        fpir=nullable(NUMBER),
        reason=one_of(ABOVE, BELOW, EMPTY),
        rough=TRUTH,
        decided=TRUTH,
    ),
    "Unreadable": record(error=_ERROR),
    "WorkingPoint": record(
        threshold=NUMBER,
        fpir=nullable(NUMBER),
        gallery=nullable(WHOLE),
        extrapolated=TRUTH,
        rough=TRUTH,
        note=TEXT,
    ),
    "Identified": record(
        results=listed({"anyOf": [ref("Match"), ref("Unreadable")]}), threshold=ref("WorkingPoint")
    ),
    "Subject": record(name=TEXT, samples=WHOLE, added=TIME, image=nullable(WHOLE)),
    "Subjects": record(subjects=listed(ref("Subject")), next=nullable(TEXT), total=WHOLE),
    "Enrolled": record(name=TEXT, samples=WHOLE, sample_ids=listed(WHOLE)),
    "Renamed": record(name=TEXT),
    "Removed": record(removed=WHOLE),
    "Sample": record(id=WHOLE, source=nullable(TEXT), added=TIME, has_image=TRUTH),
    "Samples": record(samples=listed(ref("Sample"))),
    "Threshold": record(
        working_point=nullable(ref("WorkingPoint")),
        why=nullable(TEXT),
        code=nullable(TEXT),
        fpir=NUMBER,
        subjects=WHOLE,
        samples=WHOLE,
        scoring=TEXT,
        curves=nullable({"type": "object"}),
    ),
    "Gallery": record(
        name=TEXT,
        model=TEXT,
        digest=TEXT,
        dim=WHOLE,
        subjects=WHOLE,
        samples=WHOLE,
        scoring=TEXT,
        keep_images=TRUTH,
        version=TEXT,
        read_only=TRUTH,
        limits={"type": "object", "additionalProperties": WHOLE},
        role=one_of("read", "write"),
    ),
}
