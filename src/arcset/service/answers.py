"""JSON answers, written by hand where they are many."""

import json
import math
from typing import Any
from urllib.parse import unquote

from fastapi import Response

from arcset.files import finite
from arcset.recognition.decisions import Match
from arcset.service.errors import RefusalError

__all__ = ["answer", "decoded", "match_json"]


def answer(content: Any, status: int = 200) -> Response:
    """A JSON response; what JSON lacks becomes null."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def match_json(match: Match | RefusalError) -> dict[str, Any]:
    """As `Match.json`, some times quicker; or why there is none."""
    if isinstance(match, RefusalError):
        return {"error": match.json()}
    return {
        "subject": match.subject,
        "cosine": None if math.isnan(match.cosine) else match.cosine,
        "probability": match.probability,
        "threshold": match.threshold,
        "candidates": [vars(one) for one in match.candidates],
        "fpir": match.fpir,
        "reason": match.reason,
        "rough": match.rough,
        "decided": match.decided,
    }


def decoded(name: str) -> str:
    """A percent-encoded name out of a path; raises `RefusalError` for what is no UTF-8."""
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise RefusalError("bad_request", "The name in the path is no UTF-8.") from None
