"""A certificate authority for tests, and files with its certificates."""

import datetime as dt
import ssl
from pathlib import Path

import trustme

from coordinator.io.tls.certificates import certificates_in, validity
from coordinator.io.tls.contexts import OwnCertificate, PemFile


class Folder:
    """A folder: `chain` and `key` are those of a server at 127.0.0.1; `client` has a client's certificate and key."""

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.authority = trustme.CA()
        self.ca, self.chain, self.key, self.client = (path / f"{name}.pem" for name in ("ca", "chain", "key", "client"))
        self.authority.cert_pem.write_to_path(self.ca)
        self.issue()
        self.authority.issue_cert("billing").private_key_and_cert_chain_pem.write_to_path(self.client)

    def issue(self, not_after: dt.datetime | None = None, name: str = "127.0.0.1") -> None:
        """Replace the server's certificate."""
        issued = self.authority.issue_cert(name, not_after=not_after)
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    @property
    def ends_s(self) -> int:
        """End of the certificate's validity, in seconds since the epoch."""
        return validity(certificates_in(self.chain.read_text())[0]).ends_s

    def listening(self, *, clients_show: bool = False) -> tuple[str, ...]:
        """Return the settings for a daemon."""
        own = (f"tls.certificate.location={self.chain}", f"tls.key.location={self.key}")
        return (*own, f"tls.client.ca.location={self.ca}") if clients_show else own

    def own(self, password: str | None = None) -> OwnCertificate:
        """Return the server's certificate, loaded."""
        chain, key = PemFile("tls.certificate.location", str(self.chain)), PemFile("tls.key.location", str(self.key))
        return OwnCertificate(chain, key, "tls.key.password", password)

    def shown(self) -> dict[str, str]:
        """Return librdkafka's settings for a client with a certificate."""
        return {"ssl.certificate.location": str(self.client), "ssl.key.location": str(self.client)}

    def trusting(self, *, shows: bool = False) -> ssl.SSLContext:
        """Return a context for a client."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if shows:
            context.load_cert_chain(self.client)
        return context
