"""Certificates and keys in files: what is wrong with them is said, and what is put in their place is used."""

import asyncio
import datetime as dt
import os
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.gateway.io.broker_client import BrokerClient, RequestFailed
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.io.tls.certificates import certificates_in, validity
from coordinator.io.tls.connection import ClientSide
from coordinator.io.tls.contexts import PemFile, Renewed, TlsRefused, trust
from coordinator.io.tls.listening import ListeningTls, listen_at
from tests.edges.certificates import Folder
from tests.edges.tcp import tcp_server
from tests.edges.test_tls_connection import Client
from tests.enumerations import share_of

UTC = dt.UTC


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2075], ids=lambda year: f"until {year}")
def test_a_certificate_says_until_when_it_holds_in_either_form_of_time(folder: Folder, year: int) -> None:
    ends = dt.datetime(year, 2, 28, 23, 59, 58, tzinfo=UTC)
    folder.issue(not_after=ends)
    held = folder.own().load_into(context())
    assert held.ends_s == ends.timestamp()
    assert held.begins_s < held.ends_s


@given(st.data())
@settings(deadline=None, max_examples=share_of(300))
def test_what_is_no_certificate_is_a_value_error(data: st.DataObject) -> None:
    der = ssl.PEM_cert_to_DER_cert(AUTHORITY)
    at = data.draw(st.integers(0, len(der) - 1))
    broken = data.draw(
        st.one_of(st.binary(max_size=200), st.just(der[:at]), st.just(der[:at] + b"\xff" + der[at + 1 :]))
    )
    try:
        held = validity(broken)
    except ValueError:
        return
    assert isinstance(held.ends_s, int)


AUTHORITY = trustme.CA().cert_pem.bytes().decode()


def test_a_chain_is_read_whole_and_in_order() -> None:
    assert certificates_in(f"a word before\n{AUTHORITY}\n{AUTHORITY}") == [ssl.PEM_cert_to_DER_cert(AUTHORITY)] * 2
    assert certificates_in("-----BEGIN PRIVATE KEY-----") == []


def _gone(folder: Folder) -> None:
    folder.chain.unlink()


def _no_pem(folder: Folder) -> None:
    folder.chain.write_bytes(b"\xff\xfe\x00" * 30)


def _no_certificate(folder: Folder) -> None:
    folder.chain.write_bytes(folder.key.read_bytes())


def _cut_off(folder: Folder) -> None:
    folder.chain.write_text(folder.chain.read_text()[:200] + "\n-----END CERTIFICATE-----\n")


def _no_key(folder: Folder) -> None:
    folder.key.write_bytes(folder.chain.read_bytes())


def _other_key(folder: Folder) -> None:
    chain = folder.chain.read_bytes()
    folder.issue()
    folder.chain.write_bytes(chain)


def _encrypted(folder: Folder) -> None:
    folder.key.write_text(encrypted(folder.key.read_bytes(), "right"))


def encrypted(key: bytes, password: str) -> str:
    from cryptography.hazmat.primitives import serialization as forms

    loaded = forms.load_pem_private_key(key, None)
    lock = forms.BestAvailableEncryption(password.encode())
    return loaded.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, lock).decode()


@pytest.mark.parametrize(
    ("spoil", "password", "sentence"),
    [
        (_gone, None, "tls.certificate.location = {chain}: cannot be read: No such file or directory"),
        (_no_pem, None, "tls.certificate.location = {chain}: it is no PEM file"),
        (_no_certificate, None, "tls.certificate.location = {chain}: it holds no certificate in PEM"),
        (_cut_off, None, "tls.certificate.location = {chain}: a certificate in it cannot be read"),
        (_no_key, None, "tls.key.location = {key}: it holds no private key in PEM"),
        (_other_key, None, "tls.key.location = {key}: it is not the key of the certificate in {chain}"),
        (_encrypted, None, "tls.key.location = {key}: the key is encrypted, and tls.key.password is not set"),
        (_encrypted, "wrong", "tls.key.location = {key}: tls.key.password does not open it"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else None,
)
def test_what_is_wrong_with_a_file_is_one_sentence(
    folder: Folder, spoil: Callable[[Folder], None], password: str | None, sentence: str
) -> None:
    spoil(folder)
    with pytest.raises(TlsRefused) as refused:
        folder.own(password).load_into(context())
    assert str(refused.value) == sentence.format(chain=folder.chain, key=folder.key)


def test_an_encrypted_key_is_opened_with_its_password(folder: Folder) -> None:
    _encrypted(folder)
    assert folder.own("right").load_into(context()).ends_s > 0


def test_chain_and_key_may_stand_in_one_file(folder: Folder) -> None:
    folder.chain.write_bytes(folder.key.read_bytes() + folder.chain.read_bytes())
    one = folder.own()
    assert replace(one, key=one.chain).load_into(context()).ends_s > 0


def test_an_authority_without_certificates_is_refused(folder: Folder) -> None:
    with pytest.raises(TlsRefused, match="it holds no certificate"):
        trust(context(), PemFile("tls.client.ca.location", str(folder.key)))


def test_a_context_is_made_anew_when_a_file_is_another_and_kept_when_the_new_one_is_bad(folder: Folder) -> None:
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        fresh = context()
        folder.own().load_into(fresh)
        made.append(fresh)
        return fresh

    renewed = Renewed((PemFile("c", str(folder.chain)), PemFile("k", str(folder.key))), make)
    assert renewed.context() is renewed.context() is made[0]
    folder.issue()
    assert renewed.context() is made[1]
    folder.key.write_text("half a k")
    assert renewed.context() is renewed.context() is made[1]
    folder.key.unlink()
    assert renewed.context() is made[1]
    folder.issue()
    assert renewed.context() is renewed.context() is made[2]
    before = folder.chain.stat()
    folder.chain.write_bytes(folder.chain.read_bytes())
    os.utime(folder.chain, ns=(before.st_atime_ns, before.st_mtime_ns))
    last = renewed.context()
    assert [last] == made[3:], "files that were put there with the times of others are others"


HOSTS = ["no such host", "a" * 70 + ".example", "ü" * 80, "", ".x", "127.0.0.1\0x", "[::1]", "localhost."]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_name_that_is_none_is_no_connection_and_nothing_worse(
    folder: Folder, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    tls = UpstreamTls(None, PemFile("upstream.ssl.ca.location", str(folder.ca)))

    async def dial() -> None:
        listening = await listen_at(nobody, "127.0.0.1", 0, ListeningTls(folder.own(), None))
        port = listening.sockets[0].getsockname()[1]
        for host in HOSTS:
            for wrong in (port, 1, 70_000, -1):
                with pytest.raises(RequestFailed):
                    await BrokerClient.open(host, wrong, 5, tls=tls)
        listening.close()

    run(dial())


def nobody() -> ClientSide:
    return Client()


async def test_a_broker_that_speaks_no_tls_is_told_from_one_that_does(folder: Folder) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)

    tls = UpstreamTls(None, PemFile("upstream.ssl.ca.location", str(folder.ca)))
    async with tcp_server(hang_up) as port:
        with pytest.raises(
            RequestFailed, match=r"127.0.0.1:\d+: it hung up instead of speaking TLS \(upstream.security"
        ):
            await BrokerClient.open("127.0.0.1", port, 5, tls=tls)
        with pytest.raises(RequestFailed, match="does it want TLS"):
            await BrokerClient.open("127.0.0.1", port, 5)
