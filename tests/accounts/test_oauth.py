"""Tokens of an identity provider: which are accepted, and what attackers try."""

import hmac
import json
import warnings
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey

from coordinator.accounts.oauth import (
    MAX_TOKEN_BYTES,
    Bearer,
    TokenCheck,
    TokenSettings,
    TokenVerifier,
    read_bearer,
)
from coordinator.accounts.scram import LoginRejected
from tests.accounts.identity_provider import AUDIENCE, ISSUER, NOW_MS, Key, claims, key_set, rsa_key, token

RSA = rsa_key()
KEYS: dict[str, Key] = {
    "RS256": RSA,
    "PS512": RSA,
    "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "okp"}),
}
SETTINGS = TokenSettings((AUDIENCE, "other"), ISSUER)


@pytest.fixture
def verifier() -> TokenVerifier:
    made = TokenVerifier(SETTINGS)
    made.set_keys(key_set(*{key.kid: key for key in KEYS.values()}.values()))
    return made


def refusal(verifier: TokenVerifier, given: str) -> str:
    with pytest.raises(LoginRejected) as refused:
        verifier.verify(given, NOW_MS)
    return str(refused.value)


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_token_names_its_owner_and_its_end(verifier: TokenVerifier, algorithm: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # EdDSA has a newer name, which few providers use
        given = token(KEYS[algorithm], claims(), algorithm)
        check = TokenCheck(verifier, given, NOW_MS)
        check.run()
    assert check.bearer == Bearer("alice", NOW_MS + 300_000), check.refusal
    assert verifier.verify(token(RSA, claims(aud=["x", AUDIENCE], iat=None)), NOW_MS).name == "alice"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"aud": "another service"}, "aud"),
        ({"aud": ["a", "b"]}, "aud"),
        ({"aud": {"muster": 1}}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": "https://idp.example.net.evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"exp": NOW_MS // 1_000 - 31}, "exp"),
        ({"exp": None}, "exp"),
        ({"exp": "9999999999"}, "exp"),
        ({"exp": True}, "exp"),
        ({"nbf": NOW_MS // 1_000 + 31}, "not yet valid"),
        ({"iat": NOW_MS // 1_000 + 31}, "in the future"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": ["alice"]}, "sub"),
    ],
)
def test_a_claim_that_is_not_as_it_must_be_is_refused(
    verifier: TokenVerifier, changed: dict[str, Any], why: str
) -> None:
    assert why in refusal(verifier, token(RSA, claims(**changed)))


def test_clocks_may_differ_a_little(verifier: TokenVerifier) -> None:
    for changed in ({"exp": NOW_MS // 1_000 - 29}, {"nbf": NOW_MS // 1_000 + 29}, {"iat": NOW_MS // 1_000 + 29}):
        assert verifier.verify(token(RSA, claims(**changed)), NOW_MS).name == "alice"


@pytest.mark.parametrize("end", [10**400, 1e308])
def test_a_token_that_never_ends_ends_in_a_time_that_can_be_said(verifier: TokenVerifier, end: float) -> None:
    assert verifier.verify(token(RSA, claims(exp=end)), NOW_MS).expires_ms == 253_402_300_799_000


def part(said: object) -> str:
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def test_a_token_without_a_signature_is_refused(verifier: TokenVerifier) -> None:
    body = part(claims())
    for algorithm in ("none", "None", "NONE", "", None, 5, ["RS256"]):
        for signature in ("", "x"):
            why = refusal(verifier, f"{part({'alg': algorithm, 'kid': 'one'})}.{body}.{signature}")
            assert "not accepted" in why or "cannot be used" in why
    head, _, signature = token(RSA, claims()).split(".")
    assert "signature is wrong" in refusal(verifier, f"{head}.{part(claims(sub='root'))}.{signature}")
    assert refusal(verifier, f"{head}.{body}.")
    assert "signature is wrong" in refusal(verifier, token(rsa_key("one"), claims()))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_never_taken_for_a_secret(verifier: TokenVerifier, algorithm: str) -> None:
    forms = [RSA.as_pem(private=False), RSA.as_der(private=False), key_set(RSA), json.dumps(RSA.as_dict()).encode()]
    for secret in forms:
        signed = f"{part({'alg': algorithm, 'kid': 'one'})}.{part(claims())}"
        seal = hmac.digest(secret, signed.encode(), f"sha{algorithm.removeprefix('HS')}")
        assert "not accepted" in refusal(verifier, f"{signed}.{part(seal)}")
    assert "signed with a key" in refusal(verifier, token(KEYS["ES256"], claims(), "ES256", kid="one"))


def test_keys_that_a_token_brings_along_are_not_used(verifier: TokenVerifier) -> None:
    own = rsa_key("own")
    headers: tuple[dict[str, Any], ...] = (
        {"jwk": own.as_dict(private=False)},
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/certificate"},
        {"kid": "../../../dev/null"},
    )
    for header in headers:
        assert "key that is not known" in refusal(verifier, token(own, claims(), **header))
        assert "signature is wrong" in refusal(verifier, token(own, claims(), **{**header, "kid": "one"}))
    assert "UnsupportedHeader" in refusal(verifier, token(RSA, claims(), crit=["exp2"], exp2="x"))


def test_secret_keys_and_those_for_encryption_in_a_set_are_not_used() -> None:
    verifier = TokenVerifier(SETTINGS)
    secret = {"kty": "oct", "k": part(b"x" * 64), "kid": "one"}
    sealing = RSA.as_dict(private=False) | {"kid": "two", "use": "enc"}
    other = RSA.as_dict(private=False) | {"kid": "three", "alg": "RS512"}
    strange = [{"kty": "AKP", "kid": "four"}, {"kty": "RSA", "n": 5}, "no key", 7, {"kty": "EC", "crv": "P-999"}]
    verifier.set_keys(json.dumps({"keys": [secret, sealing, other, *strange]}).encode())
    for kid in ("one", "two", "three", "four"):
        assert "not known" in refusal(verifier, token(RSA, claims(), kid=kid))
    assert verifier.verify(token(RSA, claims(), "RS512", kid="three"), NOW_MS).name == "alice"
    for text in (b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": 5}', b'{"keys": []}', b"[" * 100_000, b"\xff"):
        with pytest.raises(ValueError, match=r"no JSON Web Key Set|no public key"):
            verifier.set_keys(text)
    assert verifier.verify(token(RSA, claims(), "RS512", kid="three"), NOW_MS).name == "alice", "those before stay"


def test_a_token_that_names_no_key_needs_one_that_is_the_only_one(verifier: TokenVerifier) -> None:
    given = token(RSA, claims(), kid=None)
    assert verifier.verify(given, NOW_MS).name == "alice"
    verifier.set_keys(key_set(rsa_key("two"), RSA))
    assert "which of several" in refusal(verifier, given)


def test_new_keys_take_the_place_of_old_ones_and_are_asked_for(verifier: TokenVerifier) -> None:
    asked: list[int] = []
    verifier.on_unknown_key = lambda: asked.append(1)
    new = rsa_key("new")
    assert "not known" in refusal(verifier, token(new, claims()))
    assert len(asked) == 1
    verifier.set_keys(key_set(new))
    assert verifier.verify(token(new, claims()), NOW_MS).name == "alice"
    assert "not known" in refusal(verifier, token(RSA, claims()))


@pytest.mark.parametrize(
    "given",
    [
        "a" * (MAX_TOKEN_BYTES + 1),
        f"{'a' * 20_000}.{part({})}.x",
        "." * 100,
        "a.b",
        "a.b.c.d.e",
        "é.é.é",
        "\ud800.a.b",
        f"{part(b'[' * 5_000)}.a.b",
        f"{part(b'null')}.a.b",
        token(RSA, b"[" * 20_000),
        token(RSA, b"no json"),
        token(RSA, b"[]"),
    ],
)
def test_what_is_no_token_is_refused_whatever_it_is(verifier: TokenVerifier, given: str) -> None:
    assert refusal(verifier, given)


def test_a_huge_claim_is_refused(verifier: TokenVerifier) -> None:
    assert "bytes; 32768 are allowed" in refusal(verifier, token(RSA, claims(groups=["x" * 100] * 5_000)))


def test_messages_are_read_as_apache_kafka_reads_them() -> None:
    assert read_bearer(b"n,,\x01auth=Bearer abc.def-_\x01\x01") == ("", "abc.def-_")
    assert read_bearer(b"n,a=ali=2Cce,\x01auth=bearer x\x01traceId=5\x01\x01") == ("ali,ce", "x")
    for wrong in (
        *(b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"\xff"),
        *(b"y,,\x01auth=Bearer x\x01\x01", b"n,,\x01auth=Bearer x\x01", b"n,,\x01auth=Bearer x y\x01\x01"),
        *(b"n,,\x01other=Bearer x\x01\x01", b"n,,\x01auth=Bearer " + b"x" * 100_000 + b"\x01\x01"),
    ):
        with pytest.raises(LoginRejected):
            read_bearer(wrong)
