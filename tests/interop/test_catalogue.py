"""Descriptions in clients' folders."""

from pathlib import Path

import pytest

from interop.builds import CLIENTS, folders
from interop.catalogue import BadClient, Client, read

ALL = sorted(path.parent for path in CLIENTS.glob("*/client.toml"))
MINIMAL = b'name = "x"\nversion = "1"\nlanguage = "C"\nrun = "./x"\n'


def test_a_client_that_says_the_least_offers_nothing() -> None:
    client = read(MINIMAL)
    assert client == Client("x", "1", "C", "./x")
    assert not client.offers("mixed")


def test_a_client_offers_what_it_does_itself_and_what_is_done_with_its_members() -> None:
    client = read(MINIMAL + b'capabilities = ["configs"]\ndriven = ["mixed"]\n')
    assert client.offers("configs") and client.offers("mixed") and not client.offers("idempotent")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'capabilities = ["flying"]', "flying"),
        (b'driven = ["configs"]', "none that can be driven: configs"),
        (b'driven = ["mixed"]\ncapabilities = ["mixed"]', "both driven and the program's own: mixed"),
        (b'colour = "blue"', "colour"),
        (b"needs = 3", "needs"),
    ],
)
def test_a_client_that_says_what_nobody_understands_is_refused(line: bytes, sentence: str) -> None:
    with pytest.raises(BadClient, match=sentence):
        read(MINIMAL + line)


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_every_client_here_can_be_read_and_pins_its_version(folder: Path) -> None:
    client = read((folder / "client.toml").read_bytes())
    assert client.capabilities or client.driven
    assert client.version
    assert all((CLIENTS / shared).is_dir() for shared in client.shares)
    assert not list(folder.glob("*lock*")), "a lock file names a registry"


def test_the_companion_of_mixed_groups_is_among_the_clients() -> None:
    assert [folder.name for folder in folders(frozenset({"confluent-kafka"}))] == ["confluent-kafka"]


def test_a_client_nobody_has_is_named() -> None:
    with pytest.raises(BadClient, match="no such client: nothing"):
        folders(frozenset({"nothing", "kcat"}))
