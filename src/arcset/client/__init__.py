"""A gallery that `arcset serve` serves, used from Python as if it lay beside the program.

    with arcset.Client("http://127.0.0.1:8321", key="arcset_…") as client:
        client.enroll("anna", ["anna-1.jpg", "anna-2.jpg"])
        match = client.identify("visitor.jpg")
        print(match.subject, match.probability)  # None: unknown

It needs nothing but the standard library to reach the server. docs/guides/serve.md has the rest.
"""

from arcset.client.client import Client
from arcset.client.connection import ServiceError

__all__ = ["Client", "ServiceError"]
