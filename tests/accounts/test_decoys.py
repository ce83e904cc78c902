"""Challenges of users that do not exist, which look like those of users that do."""

from collections import Counter
from random import Random

import pytest

from coordinator.accounts.accounts import ITERATIONS, Accounts
from coordinator.accounts.decoys import CredentialShape, decoy, shape_of
from coordinator.accounts.records import CredentialRecord
from coordinator.accounts.scram import ScramCredential, ScramMechanism
from tests.accounts.rig import NOW, accounts_of

SHA_256, SHA_512 = ScramMechanism
STRANGERS = [f"stranger-{number}" for number in range(400)]
KAFKAS = CredentialShape(4_096, 0)


def set_credential(accounts: Accounts, name: str, salt: bytes, iterations: int) -> None:
    credential = ScramCredential(salt, b"s" * 32, b"k" * 32, iterations)
    assert not accounts.write([CredentialRecord(SHA_256, name, credential)], NOW)


def kafka_salt(random: Random) -> bytes:
    """A salt as Kafka's tools make it: `new BigInteger(130, random).toString(36)`."""
    number, digits = random.getrandbits(130), ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.encode()


def shapes(accounts: Accounts, names: list[str]) -> set[CredentialShape]:
    return {shape_of(accounts.credential(SHA_256, name)) for name in names}


def test_a_stranger_has_the_same_challenge_each_time_and_no_other_one_has_it() -> None:
    accounts = accounts_of({"alice": "secret"})
    salts = [accounts.credential(SHA_256, name).salt for name in STRANGERS]
    assert salts == [accounts.credential(SHA_256, name).salt for name in STRANGERS]
    assert len(set(salts)) == len(STRANGERS)


def test_strangers_look_like_users_whatever_users_were_made_with() -> None:
    accounts = accounts_of({"root": "secret"}, iterations=8_192)
    set_credential(accounts, "billing", kafka_salt(Random(1)), 4_096)
    set_credential(accounts, "shipping", b"\x80" * 64, 10_000)
    users = shapes(accounts, ["root", "billing", "shipping"])
    assert users == {CredentialShape(8_192, 16), KAFKAS, CredentialShape(10_000, 64)}
    assert shapes(accounts, STRANGERS) == users
    assert not accounts.write([CredentialRecord(SHA_256, "shipping", None)], NOW)
    assert shapes(accounts, [*STRANGERS, "shipping"]) == {CredentialShape(8_192, 16), KAFKAS}


def test_a_user_of_the_same_shape_changes_no_strangers_challenge() -> None:
    accounts = accounts_of({"alice": "secret"})
    before = [accounts.credential(SHA_256, name) for name in STRANGERS]
    set_credential(accounts, "bob", b"another salt ...", 4_096)
    assert before == [accounts.credential(SHA_256, name) for name in STRANGERS]


def test_without_users_strangers_look_like_the_first_administrator() -> None:
    accounts = accounts_of({})
    alone = shapes(accounts, STRANGERS)
    accounts.make_administrator("root", "secret", NOW)
    assert alone == shapes(accounts, ["root"]) == {CredentialShape(ITERATIONS, 24)}


def test_salts_of_strangers_are_as_long_as_kafkas() -> None:
    random = Random(7)
    real = Counter(len(kafka_salt(random)) for _ in range(4_000))
    made = Counter(len(decoy(SHA_256, b"secret", f"u{number}", {KAFKAS}).salt) for number in range(4_000))
    assert all(abs(real[length] - made[length]) < 200 for length in real | made), (real, made)
    longest = [decoy(SHA_256, b"secret", f"u{number}", {KAFKAS}).salt for number in range(4_000)]
    assert {salt[:1] for salt in longest if len(salt) == 26} == {b"1"}


@pytest.mark.parametrize("name", ["nobody", "ünï", "\ud800", "", "a" * 4_000])
def test_any_name_has_a_decoy_that_no_password_fits(name: str) -> None:
    found = decoy(SHA_512, b"secret", name, {CredentialShape(4_096, 100)})
    assert len(found.salt) == 100
    assert len(found.stored_key) == len(found.server_key) == 64
