"""An identity provider on loopback: tokens for clients that show their secret, and its public key."""

import base64
import binascii
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from joserfc import jwt
from joserfc.jwk import RSAKey

AUDIENCE, ISSUER = "muster", "https://idp.example.net"
_LIFETIME_S = 300


class IdentityProvider:
    """Signs a token for a client with its secret. A client with another secret is given one as well, signed by a key
    that is not shown: the server under test must refuse it.
    """

    def __init__(self, name: str, secret: str) -> None:
        self._client = f"{name}:{secret}"
        self._key = RSAKey.generate_key(2_048, {"kid": "shown"})
        self._forged = RSAKey.generate_key(2_048, {"kid": "shown"})
        self.address = ""
        """Its URL without a path, once it serves."""

    def token(self, credentials: str, now_s: int) -> str:
        """Return a token for `NAME:SECRET`."""
        key = self._key if credentials == self._client else self._forged
        claims: dict[str, str | int] = {"sub": credentials.partition(":")[0], "aud": AUDIENCE, "iss": ISSUER}
        claims |= {"iat": now_s, "exp": now_s + _LIFETIME_S}
        return jwt.encode({"alg": "RS256", "kid": "shown", "typ": "JWT"}, claims, key)

    def key_set(self) -> bytes:
        """Return the public key as a JSON Web Key Set."""
        return json.dumps({"keys": [self._key.as_dict(private=False)]}).encode()

    def settings(self) -> tuple[str, ...]:
        """Return the settings of a musterd that trusts it."""
        return (
            f"sasl.oauthbearer.jwks.endpoint.url={self.address}/keys",
            f"sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"sasl.oauthbearer.expected.issuer={ISSUER}",
        )


def credentials(authorization: str | None) -> str | None:
    """Return `NAME:SECRET` of a header Authorization by Basic, or None where it is none."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


@contextmanager
def serving(provider: IdentityProvider) -> Iterator[IdentityProvider]:
    """Serve the provider: `POST /token` and `GET /keys`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, provider.key_set())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            shown = credentials(self.headers.get("Authorization"))
            if shown is None:
                self._answer(401, b'{"error": "invalid_client"}')
                return
            token = provider.token(shown, int(time.time()))
            given = {"access_token": token, "token_type": "bearer", "expires_in": _LIFETIME_S}
            self._answer(200, json.dumps(given).encode())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_given: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
