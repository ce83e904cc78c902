"""Addresses as clients are told them."""

from coordinator.config.keys import Address
from coordinator.start.listeners import advertised_address, cannot_listen


def test_an_advertised_address_stands_for_the_bound_one() -> None:
    assert advertised_address("kafka", None, ("127.0.0.1", 4_711)) == ("127.0.0.1", 4_711)
    assert advertised_address("kafka", Address("kafka.example", 9_092), ("0.0.0.0", 4_711)) == ("kafka.example", 9_092)


def test_the_error_of_a_taken_address_names_it_and_the_ways_out() -> None:
    taken = OSError(98, "Address already in use")
    told = str(cannot_listen("kafka", Address("127.0.0.1", 9_092), taken))
    ways_out = "--kafka HOST:PORT chooses another address, --kafka off does without"
    assert told == f"kafka = 127.0.0.1:9092: Address already in use ({ways_out})"
    assert "off" not in str(cannot_listen("kafka", Address("127.0.0.1", 9_092), taken, is_needed=True))
