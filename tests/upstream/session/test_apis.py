"""The table of a connection in front of a broker, judged by kio's own classes for every answer there is."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

import kio.schema
import pytest
from msgspec.structs import replace

from coordinator.gateway.session.apis import (
    FORWARDED_VERSIONS,
    LOCAL_KEYS,
    REWRITTEN_KEYS,
    SASL_HANDSHAKE,
    advertised_versions,
)
from coordinator.gateway.session.router import Router
from protocol.errors import ProtocolViolation
from protocol.kafka.features import GATEWAY_FEATURE
from protocol.messages.node import FinalizedFeature, SupportedFeature
from tests.upstream.session.frames import BROKER

NOT_OF_BROKERS = {29, 31}
"""The hosts in answers about ACLs are those that may connect."""


@cache
def answers() -> dict[tuple[int, int], Any]:
    """By key and version."""
    found = {}
    for module in pkgutil.walk_packages(kio.schema.__path__, "kio.schema."):
        if module.name.endswith(".response"):
            for one in vars(importlib.import_module(module.name)).values():
                if is_dataclass(one) and getattr(one, "__type__", None) is not None and "__api_key__" in vars(one):
                    found[int(vars(one)["__api_key__"]), int(vars(one)["__version__"])] = one
    return found


def places(kind: Any) -> Iterator[str]:
    """Names of fields, however deep, that tell where somebody listens."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name in ("host", "port"):
            yield field.name
        for inner in (hints[field.name], *get_args(hints[field.name])):
            if is_dataclass(inner):
                yield from places(inner)


@pytest.mark.parametrize("key", [key for key in FORWARDED_VERSIONS if key not in NOT_OF_BROKERS])
def test_no_answer_that_goes_through_names_a_place(key: int) -> None:
    known = [version for api, version in answers() if api == key and version <= FORWARDED_VERSIONS[key]]
    assert known
    for version in known:
        assert not list(places(answers()[key, version])), f"version {version}"


@pytest.mark.parametrize("key", [0, 1, 55])
def test_the_next_version_of_those_that_are_held_back_names_one(key: int) -> None:
    assert set(places(answers()[key, FORWARDED_VERSIONS[key] + 1])) == {"host", "port"}


@pytest.mark.parametrize("key", REWRITTEN_KEYS)
def test_those_that_are_rewritten_name_one(key: int) -> None:
    assert list(places(answers()[key, 0]))


def test_no_request_is_the_brokers_and_ours_too() -> None:
    assert not LOCAL_KEYS & set(FORWARDED_VERSIONS)
    assert not set(REWRITTEN_KEYS) & set(FORWARDED_VERSIONS)


def test_an_exchange_is_offered_with_frames_alone() -> None:
    assert [
        (one.min_version, one.max_version)
        for one in advertised_versions(BROKER).api_keys
        if one.api_key == SASL_HANDSHAKE
    ] == [(1, 1)]


def test_how_long_the_broker_would_have_us_wait_is_no_matter_of_the_clients() -> None:
    assert advertised_versions(replace(BROKER, throttle_time_ms=500)).throttle_time_ms == 0


def test_what_a_broker_could_do_is_told_as_what_it_does_without_that_which_is_not_offered() -> None:
    names = ("group.version", "metadata.version", "share.version", "streams.version", "transaction.version")
    supported = tuple(SupportedFeature(name, 0, 2) for name in names)
    told = advertised_versions(replace(BROKER, supported_features=supported)).supported_features
    assert [one.name for one in told] == ["metadata.version", "transaction.version"]


def test_what_is_told_of_a_feature_fits_together() -> None:
    """Else Java's AdminClient refuses to read it: a lowest level above the highest."""
    broker = replace(
        BROKER,
        supported_features=(SupportedFeature("transaction.version", 0, 2), SupportedFeature("kraft.version", 0, 9)),
        finalized_features=(FinalizedFeature("transaction.version", 2, 2), FinalizedFeature("kraft.version", 9, 9)),
    )
    told = advertised_versions(broker)
    assert told.supported_features == (
        SupportedFeature("transaction.version", 0, 1),
        SupportedFeature("kraft.version", 0, 9),
    )
    assert told.finalized_features == (
        FinalizedFeature("transaction.version", 1, 1),
        FinalizedFeature("kraft.version", 9, 9),
    )


def test_commits_in_transactions_are_offered_with_shards_in_the_clusters_log_alone() -> None:
    def rows(*, is_transactional: bool) -> dict[int, tuple[int, int]]:
        told = advertised_versions(BROKER, is_transactional=is_transactional)
        assert (GATEWAY_FEATURE in told.supported_features) is is_transactional
        return {one.api_key: (one.min_version, one.max_version) for one in told.api_keys}

    local, cluster = rows(is_transactional=False), rows(is_transactional=True)
    # TxnOffsetCommit 5 would add its offsets to the transaction by itself (KIP-890).
    assert {key: cluster[key] for key in cluster.keys() - local.keys()} == {25: (0, 4), 28: (0, 4)}
    router = Router(BROKER, {}, 1_000, is_transactional=True)
    assert router.route(28, 4).is_local
    for key, version in ((28, 5), (25, 5)):
        with pytest.raises(ProtocolViolation, match="is not offered"):
            router.route(key, version)
    with pytest.raises(ProtocolViolation, match="is not offered"):
        Router(BROKER, {}, 1_000).route(28, 4)
