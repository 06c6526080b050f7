"""The service does what its OpenAPI document says, whatever is sent: schemathesis tries."""

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from support.apart import apart

USUAL, MANY = 3, 150  # examples of each operation


@pytest.fixture(scope="module")
def key(keys):
    return keys["write"]


def check(address, key, mode, examples):
    """Every operation and every check, but that bytes of any kind are accepted: only images are."""
    own = {"Authorization": f"Bearer {key}"}
    document = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=own)

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
        # The usual ten seconds may pass beside other work.
        case.call_and_validate(headers=own, excluded_checks=excluded, timeout=100)

    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) >= 18
    for operation in operations:
        try:
            hypothesis.given(case=operation.as_strategy(generation_mode=mode))(tried)()
        except hypothesis.errors.Unsatisfiable:  # there is nothing in it that could be wrong
            assert mode == GenerationMode.NEGATIVE


@pytest.mark.timeout(1800)  # all operations, one after the other
@pytest.mark.parametrize("examples", [USUAL, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_operation_keeps_to_the_document(keyed_server, key, mode, examples):
    apart(check, keyed_server.url, key, mode, examples)


def test_the_document_names_the_usual_refusals_and_who_needs_a_key(keyed_server, key):
    found = keyed_server.get("/openapi.json", **{"X-API-Key": key}).json()
    assert found["openapi"].startswith("3.1")
    for operation in (one for path in found["paths"].values() for one in path.values()):
        assert {"400", "401", "429", "500", "503"} <= operation["responses"].keys()
        assert ("security" in operation) == (operation["tags"] != ["open"])
