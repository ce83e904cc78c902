"""EDGE: TLS contexts from certificates and keys in PEM files, renewed when the files change."""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from coordinator.io.tls.certificates import Validity, certificates_in, validity

log = structlog.get_logger()

_Stamp = tuple[tuple[int, ...] | None, ...]


class TlsRefused(Exception):
    """Raised for unusable certificate or key files; the text says which file, and why."""


@dataclass(frozen=True, slots=True)
class PemFile:
    """A PEM file, and the configuration key (`setting`) that names it."""

    setting: str
    path: str

    def __str__(self) -> str:
        return f"{self.setting} = {self.path}"

    def refuse(self, why: str) -> TlsRefused:
        return TlsRefused(f"{self}: {why}")


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """Our own identity: a certificate chain and its key, which may be in the same file."""

    chain: PemFile
    key: PemFile
    password_setting: str
    password: str | None

    def load_into(self, context: ssl.SSLContext) -> Validity:
        """Load chain and key. Return the validity of the chain's first certificate. Raises TlsRefused."""
        (own, *_) = _certificates(self.chain)
        text = _read(self.key)
        if "PRIVATE KEY-----" not in text:
            raise self.key.refuse("it holds no private key in PEM")
        is_encrypted = "ENCRYPTED" in text
        if is_encrypted and self.password is None:
            raise self.key.refuse(f"the key is encrypted, and {self.password_setting} is not set")
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self.chain.path, self.key.path, lambda: self.password or "")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise self.key.refuse(f"it is not the key of the certificate in {self.chain.path}") from None
            if is_encrypted:
                raise self.key.refuse(f"{self.password_setting} does not open it") from None
            raise self.chain.refuse(f"certificate and key cannot be used: {in_words(error)}") from None
        except (OSError, ValueError) as error:
            raise self.chain.refuse(f"certificate and key cannot be used: {error}") from None
        return validity(own)


def trust(context: ssl.SSLContext, file: PemFile) -> None:
    """Trust certificates that are signed by one of the file's authorities. Raises TlsRefused."""
    try:
        context.load_verify_locations(cadata=b"".join(_certificates(file)))
    except ssl.SSLError as error:
        raise file.refuse(f"its certificates cannot be used: {in_words(error)}") from None


class Renewed:
    """A context built from files, and rebuilt when one of them changes or `reread` is called: operators replace
    certificates while the daemon serves. If new files are unusable, the last context stays in use, with one warning."""

    def __init__(self, files: tuple[PemFile, ...], make: Callable[[], ssl.SSLContext]) -> None:
        """Raises TlsRefused."""
        self._files = files
        self._make = make
        self._stamp = _stamp_of(files)
        self._context = make()

    def context(self) -> ssl.SSLContext:
        """Return the context of the files' present content. Unchanged files are not read again."""
        if _stamp_of(self._files) != self._stamp:
            self.reread()
        return self._context

    def reread(self) -> None:
        """Build a new context, even if the files are unchanged."""
        self._stamp = _stamp_of(self._files)  # taken before reading: a change meanwhile is seen the next time
        try:
            self._context = self._make()
        except TlsRefused as refused:
            log.warning("new certificates cannot be used; those before stay in use", why=str(refused))
        else:
            log.info("certificates read anew", files=[file.path for file in self._files])


def _stamp_of(files: tuple[PemFile, ...]) -> _Stamp:
    return tuple(_file_stamp(file.path) for file in files)


def _file_stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _read(file: PemFile) -> str:
    try:
        return Path(file.path).read_text(encoding="utf-8")
    except OSError as error:
        raise file.refuse(f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise file.refuse("it is no PEM file") from None


def _certificates(file: PemFile) -> list[bytes]:
    try:
        found = certificates_in(_read(file))
    except ValueError:
        raise file.refuse("a certificate in it cannot be read") from None
    if not found:
        raise file.refuse("it holds no certificate in PEM")
    return found


def in_words(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason, without the place in OpenSSL's sources."""
    return (error.reason or "").replace("_", " ").lower() or str(error)
