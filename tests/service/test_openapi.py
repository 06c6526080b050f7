"""The service does what its OpenAPI document says, whatever is sent: schemathesis tries."""

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from support.apart import apart
from support.routes import PAGES, ROLES

USUAL, MANY = 3, 150  # examples of each operation
OPERATIONS = sorted(tuple(route.split()) for route in ROLES if route not in PAGES)


@pytest.fixture(scope="session")
def key(keys):
    return keys["write"]


@pytest.fixture(scope="session")
def opened(keyed_server, key):
    headers = {"Authorization": f"Bearer {key}"}
    address = f"{keyed_server.url}/openapi.json"
    return apart(schemathesis.openapi.from_url, address, headers=headers)


def check(document, method, path, key, mode, examples):
    """Every check, but that bytes of any kind are accepted: only images are."""
    strategy = document[path][method].as_strategy(generation_mode=mode)

    @hypothesis.given(case=strategy)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples == USUAL,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    def tried(case):
        excluded = [positive_data_acceptance]
        if "Authorization" not in (case.headers or {}):  # counted as missing, and sent all the same
            excluded.append(negative_data_rejection)
        case.call_and_validate(
            headers={"Authorization": f"Bearer {key}"},
            excluded_checks=excluded,
            timeout=100,  # seconds; the usual 10 may pass beside other work
        )

    try:
        tried()
    except hypothesis.errors.Unsatisfiable:  # there is nothing in it that could be wrong
        assert mode == GenerationMode.NEGATIVE


@pytest.mark.parametrize("examples", [USUAL, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_keeps_to_the_document(opened, key, method, path, mode, examples):
    apart(check, opened, method, path, key, mode, examples)


def test_the_document_names_every_code_and_the_roles(keyed_server, key):
    found = keyed_server.get("/openapi.json", **{"X-API-Key": key}).json()
    assert found["openapi"].startswith("3.1")
    operations = [one for path in found["paths"].values() for one in path.values()]
    assert len(operations) >= 18
    for one in operations:
        assert {"400", "401", "429", "500", "503"} <= one["responses"].keys()
        assert ("security" in one) == (one["tags"] != ["open"])
    roles = {
        f"{method.upper()} {path}": one["tags"][0]
        for path, methods in found["paths"].items()
        for method, one in methods.items()
    }
    assert roles == {route: role for route, role in ROLES.items() if route not in PAGES}
