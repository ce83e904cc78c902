"""Judgement of groups before nodes that fail, and the way that can be closed: not the run."""

import random
import socket
from collections.abc import Mapping

import pytest

from bench.nodes import sheet
from bench.peers import KAFKA
from bench.processes import free_ports
from interop.kafka_cluster import Cluster
from interop.nodes.cuttable_proxy import CuttableProxy
from interop.nodes.faults import KINDS, Scene, drawn
from interop.nodes.judge import Clerk, quantile
from interop.nodes.story import is_of_members


def heard(*events: Mapping[str, object]) -> Clerk:
    clerk = Clerk("a")
    for event in events:
        clerk.hear({"at": 1.0, **event})
    return clerk


def ack(number: int, generation: int = 3) -> dict[str, object]:
    return {"event": "ack", "number": number, "generation": generation}


def read(number: int, least: int) -> dict[str, object]:
    return {"event": "read", "number": number, "least": least}


def test_a_group_that_goes_on_has_no_fault() -> None:
    clerk = heard({"event": "moved", "why": "assigned"}, ack(1), read(1, 1), ack(2, 4), read(3, 2))
    clerk.found(3)
    assert (clerk.faults, clerk.moves, clerk.acknowledged_s) == ([], 1, [1.0, 1.0])


@pytest.mark.parametrize(
    ("events", "in_the_end", "fault"),
    [
        ((ack(5), read(4, 5)), 5, "group a: 4 was read, 5 had been acknowledged"),
        ((ack(5),), 4, "group a: 4 is there in the end, 5 had been acknowledged"),
        ((ack(1, 7), ack(2, 6)), 2, "group a: generation 6 follows 7"),
        ((ack(1, 7), ack(2, -1), ack(3, 6)), 3, "group a: generation 6 follows 7"),
    ],
)
def test_what_must_not_be_is_found(events: tuple[dict[str, object], ...], in_the_end: int, fault: str) -> None:
    clerk = heard(*events)
    clerk.found(in_the_end)
    assert clerk.faults == [fault]


def test_refusals_are_counted_by_their_reason() -> None:
    refused = {"event": "refused", "why": "NOT_COORDINATOR"}
    assert heard(refused, refused).refused == {"NOT_COORDINATOR": 2}


def test_quantiles_are_values_that_were_seen() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert (quantile(hundred, 0.5), quantile(hundred, 0.99), quantile(hundred, 1)) == (50.0, 99.0, 100.0)
    assert (quantile([4.0], 0.99), quantile([], 0.5)) == (4.0, 0.0)


def test_every_kind_of_fault_is_drawn_and_the_same_again_from_one_seed() -> None:
    scene = Scene([None] * 3, [], Cluster([None] * 3))  # type: ignore[list-item] # nothing happens to them

    def kinds(seed: int) -> list[str]:
        chance = random.Random(seed)
        return [drawn(scene, chance, tuple(KINDS)).what for _ in range(200)]

    assert kinds(1) == kinds(1) != kinds(2)
    assert len({drawn(scene, random.Random(seed), (kind,)).kind for seed, kind in enumerate(KINDS)}) == len(KINDS)


def test_nothing_passes_a_proxy_that_is_cut_and_all_of_it_once_it_is_mended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        proxy = CuttableProxy(free_ports(1), [broker.getsockname()[1]])
        try:
            host, _, port = proxy.bootstrap.rpartition(":")
            with socket.create_connection((host, int(port)), 10) as node:
                behind, _ = broker.accept()
                with behind:
                    behind.settimeout(10)
                    node.sendall(b"before ")
                    assert behind.recv(64) == b"before "
                    proxy.cut()
                    node.sendall(b"meanwhile")
                    behind.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        behind.recv(64)
                    proxy.mend()
                    behind.settimeout(10)
                    assert behind.recv(64) == b"meanwhile"
        finally:
            proxy.close()


def test_a_closed_port_behind_the_way_ends_connections_that_were_let_in() -> None:
    front, behind = free_ports(2)
    proxy = CuttableProxy([front], [behind])
    try:
        with socket.create_connection(("127.0.0.1", front), 10) as client:
            client.settimeout(10)
            assert client.recv(64) == b""
    finally:
        proxy.close()


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        (["leader rejoined"], True),
        (["member left", "member joined"], True),
        (["member joined"], False),
        (["leader rejoined", "session expired"], False),
        ([], False),
    ],
)
def test_only_members_may_begin_rebalances(causes: list[str], expected: bool) -> None:
    assert is_of_members(causes) is expected


def test_the_sheet_of_the_bench_compares_each_way_with_kafkas_own_coordinator() -> None:
    def figures(rate: float, p99_us: float) -> dict[str, object]:
        return {"rps": rate, "lat_us": {"p50": 1_000.0, "p99": p99_us}, "server_us_per_req": 40.0}

    found = {(KAFKA, 6): [figures(500.0, 4_000.0)], ("musterd, 3 nodes", 6): [figures(1_000.0, 6_000.0)]}
    assert sheet(found, ()).rows == [
        (KAFKA, 6, 500.0, 1.0, 1.0, 4.0, 1.0, 40.0),
        ("musterd, 3 nodes", 6, 1_000.0, 2.0, 1.0, 6.0, 1.5, 40.0),
    ]
