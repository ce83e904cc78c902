"""Values that a key accepts, and its help."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config.config import KEYS, Config
from coordinator.config.keys import LISTENERS, Address, Key
from coordinator.config.sources import Given, resolve
from coordinator.config.unsupported import FAMILIES, UNHONOURED, why_not_honoured

HOSTS = st.one_of(
    st.ip_addresses().map(str),
    st.from_regex(r"[a-z][a-z0-9.-]{0,30}", fullmatch=True),
)


@given(HOSTS, st.integers(0, 65_535))
def test_an_address_reads_back_what_it_shows(host: str, port: int) -> None:
    address = Address(host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", ":1", "h:", "h", "h:x", "h:99999", "::1:9", "[::1]", "a b:1", "http://h:1", "h:1,g:2"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^" + text.replace("[", r"\[") + "$"):
        Address.parse(text)


@pytest.mark.parametrize("key", [key for key in KEYS.values() if key.type is int], ids=lambda key: key.name)
def test_a_whole_number_is_taken_up_to_its_bounds_and_no_further(key: Key) -> None:
    assert key.lowest is not None
    assert key.highest is not None
    for allowed in (key.lowest, key.highest):
        assert key.parse(allowed) == key.parse(f" {allowed} ") == allowed
    for refused in (key.lowest - 1, key.highest + 1, str(key.highest + 1), "", "1e3", "0x10", "1_000", 1.0, True, None):
        with pytest.raises(ValueError, match=f"^{refused}$"):
            key.parse(refused)


@given(st.sampled_from(list(KEYS.values())), st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.floats()))
def test_any_value_is_taken_or_refused_in_one_way(key: Key, raw: object) -> None:
    try:
        value = key.parse(raw)
    except ValueError:
        return
    assert value is None if raw == "off" and key.name in LISTENERS else isinstance(value, key.type)


def test_a_key_is_its_field_with_dots_and_ends_with_its_unit() -> None:
    for key in KEYS.values():
        assert key.field == key.name.replace(".", "_")
        assert key.field in Config.__struct_fields__
        assert key.about.endswith(".")


def test_the_last_word_on_a_key_wins() -> None:
    words = [Given("node.id", "1", "in a file"), Given("node.id", "2", "--set")]
    assert resolve(words, KEYS) == {"node.id": (2, words[1])}


def test_no_key_is_both_honoured_and_not() -> None:
    assert not set(UNHONOURED) & set(KEYS)
    # Some are honoured of families that are not: a key is looked up before its family.
    honoured = {"sasl.enabled.mechanisms", "ssl.principal.mapping.rules", "authorizer.class.name"}
    honoured |= {key for key in KEYS if key.startswith("sasl.oauthbearer.")}
    assert set(filter(why_not_honoured, KEYS)) == honoured
    words = [Given("sasl.enabled.mechanisms", "PLAIN", "here")]
    assert "sasl.enabled.mechanisms" in resolve(words, KEYS)
    assert not [key for key in UNHONOURED if key.startswith(tuple(FAMILIES))]


@pytest.mark.parametrize(
    "key",
    [
        "group.coordinator.append.linger.ms",
        "group.coordinator.new.enable",
        "group.coordinator.threads",
        "group.share.max.size",
        "offsets.commit.timeout.ms",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        "offsets.topic.replication.factor",
    ],
)
def test_the_broker_keys_of_the_protocol_are_known_or_said_not_to_be_honoured(key: str) -> None:
    assert why_not_honoured(key)
