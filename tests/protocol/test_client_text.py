"""Clients in words."""

import pytest

from protocol.client_text import client_text


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (("billing-7", "/10.0.0.7", 51234), "billing-7 at 10.0.0.7:51234"),
        (("billing-7", "10.0.0.7"), "billing-7 at 10.0.0.7"),
        (("", "/10.0.0.7"), "(unnamed) at 10.0.0.7"),
        (("", "/"), "(unnamed)"),
    ],
)
def test_clients_are_named_by_id_and_address(client: tuple[str, str], text: str) -> None:
    assert client_text(*client) == text
