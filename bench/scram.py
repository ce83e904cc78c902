"""A SCRAM-SHA-256 client that knows its salted password: it derives nothing, so that the server is what is measured."""

import hashlib
import hmac
from base64 import b64encode

MECHANISM = "SCRAM-SHA-256"
NUMBER = 1
"""Number of the mechanism in AlterUserScramCredentials."""
ITERATIONS = 4_096
SALT = b"salt of a bench."


def salted(secret: str) -> bytes:
    """Return what stands for a salted password: any bytes do, for who has them need not derive them."""
    return hashlib.sha256(secret.encode()).digest()


class SaltedLogin:
    """One exchange. `nonce` is printable ASCII without commas."""

    __slots__ = ("_bare", "_salted")

    def __init__(self, username: str, salted_password: bytes, nonce: str) -> None:
        self._bare = f"n={username},r={nonce}"
        self._salted = salted_password

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """Return the final message, with the proof; `answer` is the server's first."""
        server_first = answer.decode()
        nonce = server_first.partition(",")[0]
        without_proof = f"c={b64encode(b'n,,').decode()},{nonce}"
        whole = f"{self._bare},{server_first},{without_proof}".encode()
        key = hmac.digest(self._salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), whole, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()
