"""OAUTHBEARER (RFC 7628, KIP-768): tokens of an identity provider, which are JWTs, checked against its public keys.

A signature is checked outside the event loop, as passwords are. Only asymmetric algorithms are accepted, and a key only
with algorithms of its own type: a public key is never used as a secret.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from coordinator.accounts.scram import LoginRejected

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""Error sent to the client, as by Apache Kafka; the client answers with `ACKNOWLEDGED`."""
ACKNOWLEDGED: Final = b"\x01"
MAX_TOKEN_BYTES: Final = 32_768
_MAX_HEADER_BYTES: Final = 8_192
_MAX_KEYS: Final = 100
_LAST_S: Final = 253_402_300_799
"""End of the year 9999: the largest end of a token; a later one could not be encoded on the wire."""
_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
"""Algorithms that are accepted, and the type of their keys."""
_FIRST: Final = re.compile(r"n,(?:a=([^,]*))?,\x01((?:[A-Za-z]+=[\x20-\x7E\r\n\t]*\x01)+)\x01")
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([-_.=~+/A-Za-z0-9]+)")


def read_bearer(message: bytes) -> tuple[str, str]:
    """Return the authorization id that the client requests, or an empty string, and the token. Raises LoginRejected."""
    if len(message) > 2 * MAX_TOKEN_BYTES:
        raise LoginRejected(f"a message of OAUTHBEARER has {len(message)} bytes; {2 * MAX_TOKEN_BYTES} are allowed")
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise LoginRejected("the message of OAUTHBEARER cannot be read")
    pairs = dict(pair.split("=", 1) for pair in found[2].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise LoginRejected("the message of OAUTHBEARER has no bearer token")
    return (found[1] or "").replace("=2C", ",").replace("=3D", "="), bearer[1]


class TokenSettings(NamedTuple):
    """Conditions on a token. Without `audiences` any audience is accepted, without an `issuer` any issuer."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_s: int = 30
    sub_claim: str = "sub"


class Bearer(NamedTuple):
    """Owner of a token, and the wall time at which it ends."""

    name: str
    expires_ms: int


class TokenVerifier:
    """Public keys of the identity provider, and the check of tokens by them. Jobs outside the loop call `verify`."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._keys: tuple[tuple[Mapping[str, Any], Any], ...] = ()
        self.on_unknown_key: Callable[[], None] = lambda: None
        """Called, in the thread of the job, when a token names an unknown key, since the keys may have been
        replaced."""

    @property
    def has_keys(self) -> bool:
        return bool(self._keys)

    def set_keys(self, text: bytes) -> None:
        """Replace the keys by those of a JSON Web Key Set. Raises ValueError, and keeps the former keys."""
        from joserfc import jwk
        from joserfc.errors import JoseError

        try:
            given = msgspec.json.decode(text)["keys"]
            described = [one for one in given if isinstance(one, dict)][:_MAX_KEYS]
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
            raise ValueError("it is no JSON Web Key Set") from None
        usable = []
        for one in described:
            if one.get("kty") not in _TYPES.values() or one.get("use", "sig") != "sig":
                continue
            try:
                usable.append((one, jwk.import_key(one)))
            except (JoseError, ValueError, TypeError, KeyError):
                continue  # an unknown curve: tokens may be signed with the other keys
        if not usable:
            raise ValueError("it has no public key that can check a signature")
        self._keys = tuple(usable)

    def verify(self, token: str, now_ms: int) -> Bearer:
        """Check a token at a wall time. Raises LoginRejected with the reason, which is not for the client."""
        if len(token) > MAX_TOKEN_BYTES:
            raise LoginRejected(f"the token has {len(token)} bytes; {MAX_TOKEN_BYTES} are allowed")
        try:
            return self._verify(token, now_ms)
        except LoginRejected:
            raise
        except Exception as error:  # noqa: BLE001 - of the libraries' many errors none may let anybody in, or end a thread
            raise LoginRejected(f"the token cannot be used: {type(error).__name__}") from None

    def _verify(self, token: str, now_ms: int) -> Bearer:
        from joserfc import jws

        registry = jws.JWSRegistry(algorithms=list(_TYPES), strict_check_header=False)
        registry.max_header_length, registry.max_payload_length = _MAX_HEADER_BYTES, MAX_TOKEN_BYTES
        signed = jws.extract_compact(token.encode(), None, registry)
        headers = signed.headers()
        algorithm = headers.get("alg")
        if algorithm not in _TYPES:
            raise LoginRejected(f"tokens signed by {str(algorithm)[:40]!r} are not accepted")
        key = self._key(algorithm, headers.get("kid"))
        if not jws.validate_compact(signed, key, [algorithm], registry):
            raise LoginRejected("the token's signature is wrong")
        return self._read_claims(msgspec.json.decode(signed.payload, type=dict[str, Any]), now_ms)

    def _key(self, algorithm: str, kid: object) -> Any:
        fitting = [
            key
            for described, key in self._keys
            if described["kty"] == _TYPES[algorithm]
            and described.get("alg", algorithm) == algorithm
            and (kid is None or described.get("kid") == kid)
        ]
        if not fitting:
            self.on_unknown_key()
            raise LoginRejected("the token is signed with a key that is not known")
        if len(fitting) > 1:
            raise LoginRejected("the token does not say which of several keys it is signed with")
        return fitting[0]

    def _read_claims(self, claims: Mapping[str, Any], now_ms: int) -> Bearer:
        from joserfc.errors import ClaimError
        from joserfc.jwt import JWTClaimsRegistry

        known = self._settings
        wanted: dict[str, Any] = {"exp": {"essential": True}, known.sub_claim: {"essential": True}}
        if known.audiences:
            wanted["aud"] = {"essential": True, "values": list(known.audiences)}
        if known.issuer is not None:
            wanted["iss"] = {"essential": True, "value": known.issuer}
        try:
            JWTClaimsRegistry(now_ms // 1_000, known.skew_s, **wanted).validate(dict(claims))
        except ClaimError as error:
            raise LoginRejected(f"the token's claims are not as they must be: {error}") from None
        name = claims[known.sub_claim]
        if not isinstance(name, str) or not name.strip():
            raise LoginRejected(f"the token's {known.sub_claim} is no name")
        return Bearer(name, int(min(claims["exp"], _LAST_S) * 1_000))


class TokenCheck:
    """Job that checks a token. It touches neither disk nor node."""

    __slots__ = ("_now_ms", "_token", "_verifier", "bearer", "refusal")

    def __init__(self, verifier: TokenVerifier, token: str, now_ms: int) -> None:
        self._verifier = verifier
        self._token = token
        self._now_ms = now_ms
        self.bearer: Bearer | None = None
        self.refusal = ""

    def run(self, disk: object = None) -> None:
        """Verify the token."""
        try:
            self.bearer = self._verifier.verify(self._token, self._now_ms)
        except LoginRejected as failed:
            self.refusal = str(failed)
        self._token = ""
