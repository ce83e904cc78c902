"""An identity provider for tests: keys, and the tokens that it signs."""

import json
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.registry import HeaderParameter

AUDIENCE, ISSUER = "muster", "https://idp.example.net"
NOW_MS = 1_700_000_000_000
Key = RSAKey | ECKey | OKPKey | OctKey


def rsa_key(kid: str = "one") -> RSAKey:
    return RSAKey.generate_key(2_048, {"kid": kid})


def key_set(*keys: Key) -> bytes:
    """Return the public keys, as providers publish them."""
    return json.dumps({"keys": [key.as_dict(private=False) | {"kid": key.kid} for key in keys]}).encode()


def claims(now_ms: int = NOW_MS, **changed: Any) -> dict[str, Any]:
    said = {"sub": "alice", "aud": AUDIENCE, "iss": ISSUER, "exp": now_ms // 1_000 + 300, "iat": now_ms // 1_000}
    return {name: value for name, value in {**said, **changed}.items() if value is not None}


def token(key: Key, said: dict[str, Any] | bytes, algorithm: str = "RS256", **header: Any) -> str:
    payload = said if isinstance(said, bytes) else json.dumps(said).encode()
    headers = {"alg": algorithm, "kid": key.kid, **header}
    known = {
        name: HeaderParameter("any", "str") for name in header if name not in jws.JWSRegistry.default_header_registry
    }
    registry = jws.JWSRegistry(known, algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length, registry.max_payload_length = 1 << 20, 1 << 20
    return jws.serialize_compact({n: v for n, v in headers.items() if v is not None}, payload, key, registry=registry)
