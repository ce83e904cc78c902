"""Users of a world who log in by tokens: of an identity provider, and by access tokens that the administrator makes."""

import hashlib
import json
from functools import cache
from typing import Any

from joserfc import jws
from joserfc.jwk import OKPKey

from coordinator.config.accounts import Audiences
from protocol.messages.groups import ListGroups
from protocol.messages.node import HttpLoginReply
from tests.accounts.identity_provider import AUDIENCE, ISSUER, key_set
from tests.simulation.accounts.administrator import TOKENS, TokenChange
from tests.simulation.accounts.login import Exchange, OneMessage
from tests.simulation.accounts.people import Person
from tests.simulation.errors import Broken

OAUTHBEARER = "OAUTHBEARER"
SETTINGS: dict[str, Any] = {
    "sasl_oauthbearer_expected_audience": Audiences((AUDIENCE,)),
    "sasl_oauthbearer_expected_issuer": ISSUER,
}
_LONG_S, _SHORT_S = 600, 5


@cache
def _key(name: str) -> OKPKey:
    """Return the key of that name: the same in each process, so that a seed is one trace."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    text = private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return OKPKey.import_key(text, {"kid": "one"})


@cache
def provider_keys() -> bytes:
    """Return the key set that the identity provider publishes."""
    return key_set(_key("provider"))


def _signed(claims: dict[str, Any], key: OKPKey) -> str:
    header = {"alg": "Ed25519", "kid": "one"}
    return jws.serialize_compact(header, json.dumps(claims), key, algorithms=["Ed25519"])


class Robot(Person):
    """Logs in by a token: `is_right`: by a valid one, and often stays connected after it expires; else by an invalid
    one."""

    def __init__(self, *given: Any, is_right: bool) -> None:
        super().__init__(*given)
        self._is_right = is_right
        self._expires_s = 0

    def exchange(self, nonce: str) -> Exchange:
        lasts_s = _SHORT_S if self._random.random() < 0.5 else _LONG_S
        self._expires_s = expires_s = self._world.wall_ms // 1_000 + lasts_s
        claims = {"sub": self.credential.user, "aud": AUDIENCE, "iss": ISSUER, "exp": expires_s}
        key = _key("provider")
        if not self._is_right:
            false = self._random.choice(("aud", "iss", "exp", "key"))
            claims |= {"exp": expires_s - 86_400} if false == "exp" else {false: "another"}
            key = _key("another") if false == "key" else key
        token = _signed(claims, key)
        return OneMessage(OAUTHBEARER, f"n,,\x01auth=Bearer {token}\x01\x01".encode())

    def act(self) -> None:
        if self._random.random() < 0.2:
            self.hang_up()
        self.ask(ListGroups(), lambda _reply: None)

    def login_ended(self, is_in: bool) -> None:
        super().login_ended(is_in)
        if self._is_right and not is_in and self._world.wall_ms // 1_000 >= self._expires_s:
            self._world.seen.add("tokens that ended on their way")  # a pause, or a jump of the wall clock
            return
        if is_in is not self._is_right:
            raise Broken(f"a token that is {self._is_right} is {'let in' if is_in else 'refused'}")
        self._world.seen.add("logins by a token" if is_in else "logins by a false token")


class TokenHolder(Person):
    """Logs in over HTTP by access tokens: existing ones, and deleted ones."""

    def act(self) -> None:
        known, key = self._world.known, ("token", f"token-{self._random.randrange(TOKENS)}")
        changes = known.changes(key)
        if not changes or not known.is_certain(key):
            return
        value = known.value(key)
        versions = [TokenChange(key[1], number) for number in range(changes + 1)]
        shown = next((one for one in reversed(versions) if value in (None, one.token_hash)), versions[0])
        host = f"10.67.{self._random.randrange(256)}.{self._random.randrange(256)}"

        def heard(reply: Any) -> None:
            assert isinstance(reply, HttpLoginReply)
            if known.changes(key) != changes or not known.is_certain(key):
                return
            is_in = reply.principal == f"Token:{key[1]}"
            if is_in is (value is None):
                raise Broken(f"{key[1]} is {'let in' if is_in else 'refused'}, and it is {value!r}")
            self._world.seen.add("access tokens let in" if is_in else "access tokens refused")

        self._world.show_token(shown.text, host, heard)
