"""Limits: which holds for whom, how much may be used at once, and how long a client waits."""

import itertools

import pytest

from coordinator.accounts.quotas import CLIENT_ID, MAX_THROTTLE_MS, Entity, QuotaKey, Quotas, problem_of
from coordinator.accounts.records import QuotaRecord, decode, encode
from tests.accounts.rig import NOW, flush, open_store, opened
from tests.simulation.disk import SimDisk

JOINS = QuotaKey.JOINS


def test_as_much_as_a_second_has_may_be_used_at_once_and_then_at_the_rate() -> None:
    quotas = Quotas()
    quotas.set((("user", "a"),), {"commit_rate": 10.0})
    waits = [quotas.use(QuotaKey.COMMITS, "a", "c", 1, 0) for _ in range(13)]
    assert waits == [0] * 10 + [100, 200, 300]
    assert quotas.use(QuotaKey.COMMITS, "a", "c", 1, 300) == 100, "what waited is made good"
    assert quotas.use(QuotaKey.COMMITS, "a", "c", 1, 10_000) == 0
    assert quotas.use(QuotaKey.PRODUCED_BYTES, "a", "c", 1 << 40, 10_000) == 0, "nobody said how many bytes"
    assert quotas.use(QuotaKey.COMMITS, "b", "c", 1 << 40, 10_000) == 0


def test_a_client_that_obeys_reaches_its_rate_and_no_more() -> None:
    quotas = Quotas()
    quotas.set((("user", "a"),), {"producer_byte_rate": 1_000.0})
    now_ms = used = 0
    while now_ms < 60_000:
        wait_ms = quotas.use(QuotaKey.PRODUCED_BYTES, "a", "", 300, now_ms)
        used, now_ms = used + 300, now_ms + max(wait_ms, 1)
    assert 60_000 <= used <= 62_000


def test_no_wait_is_longer_than_heartbeats_can_stand() -> None:
    quotas = Quotas()
    quotas.set((("user", "a"),), {"producer_byte_rate": 1.0, "join_rate": 0.1})
    assert quotas.use(QuotaKey.PRODUCED_BYTES, "a", "", 1 << 40, 0) == MAX_THROTTLE_MS
    assert quotas.use(QuotaKey.PRODUCED_BYTES, "a", "", 1, MAX_THROTTLE_MS) == 1_000, "what was too much is forgotten"
    assert [quotas.use(JOINS, "a", "", 1, 0) for _ in range(2)] == [0, MAX_THROTTLE_MS]


LEVELS: list[Entity] = [
    (("client-id", "c"), ("user", "u")),
    (("client-id", None), ("user", "u")),
    (("user", "u"),),
    (("client-id", "c"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
]
"""The nearest first, as docs of Apache Kafka list them."""


def rate_of(quotas: Quotas) -> float:
    """The rate in force for the user with the client id."""
    quotas.use(JOINS, "u", "c", 1, 0)
    limit = quotas._in_force["join_rate", "u", "c"]
    return 0.0 if limit is None else limit.rate


@pytest.mark.parametrize(("nearer", "farther"), list(itertools.combinations(range(8), 2)))
def test_the_nearest_limit_holds(nearer: int, farther: int) -> None:
    quotas = Quotas()
    quotas.set(LEVELS[farther], {"join_rate": 2.0})
    assert rate_of(quotas) == 2.0
    quotas.set(LEVELS[nearer], {"join_rate": 1.0})
    assert rate_of(quotas) == 1.0
    quotas.set(LEVELS[nearer], {"commit_rate": 1.0})
    assert rate_of(quotas) == 2.0, "the other has no word on joins"
    quotas.set(LEVELS[farther], {})
    assert rate_of(quotas) == 0.0


def test_a_default_is_counted_for_each_by_itself_and_a_users_for_all_its_clients() -> None:
    quotas = Quotas()
    quotas.set((("user", None),), {"join_rate": 1.0})
    assert [quotas.use(JOINS, user, client, 1, 0) for user, client in (("a", "1"), ("b", "1"), ("a", "2"))] == [
        *(0, 0, 1_000)
    ]
    quotas.set((("ip", None),), {"connection_creation_rate": 1.0})
    assert [quotas.use_address(host, 0) for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1")] == [0, 0, 1_000]


def test_clients_that_change_their_names_fill_no_memory() -> None:
    quotas = Quotas()
    quotas.set((("client-id", None),), {"join_rate": 1.0})
    for number in range(30_000):
        quotas.use(JOINS, "u", f"c{number}", 1, 0)
    assert max(len(quotas._in_force), len(quotas._meters)) <= 10_000


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ((), "join_rate", 1.0),
        ((("group", "g"),), "join_rate", 1.0),
        ((("user", "a"), ("user", None)), "join_rate", 1.0),
        ((("ip", "10.0.0.1"), ("user", "a")), "connection_creation_rate", 1.0),
        ((("ip", "10.0.0.1"),), "join_rate", 1.0),
        ((("ip", "notanip"),), "connection_creation_rate", 1.0),
        ((("user", ""),), "join_rate", 1.0),
        ((("user", "a"),), "request_percentage", 1.0),
        *(((("user", "a"),), "join_rate", value) for value in (0.0, -1.0, float("nan"), float("inf"))),
    ],
)
def test_a_limit_that_limits_nobody_is_refused_with_a_sentence(entity: Entity, key: str, value: float) -> None:
    assert problem_of(entity, key, value)
    assert problem_of((("user", "a"),), "join_rate", 0.5) is None


def test_an_address_that_is_none_is_named_and_all_addresses_may_be_limited() -> None:
    rate = "connection_creation_rate"
    assert problem_of((("ip", "notanip"),), rate, 1.0) == "'notanip' is no IP address"
    assert [problem_of((("ip", one),), rate, 1.0) for one in ("10.0.0.1", "2001:db8::1", None)] == [None] * 3


def test_limits_outlive_a_restart_and_are_gone_when_deleted() -> None:
    disk = SimDisk(1)
    store = open_store(disk)
    accounts = opened(store)
    entity: Entity = (("client-id", None), ("user", "a"))
    accounts.write([QuotaRecord(entity, {"join_rate": 2.5}), QuotaRecord((("ip", "x"),), {"join_rate": 1.0})], NOW)
    accounts.write([QuotaRecord((("ip", "x"),), {})], NOW)
    flush(store, disk)
    disk.crash()
    assert opened(open_store(disk)).quotas.limits == {entity: {"join_rate": 2.5}}
    for record in (QuotaRecord(entity, {"join_rate": 2.5}), QuotaRecord(entity, {})):
        assert decode(*encode(record)) == record


@pytest.mark.parametrize("rate", [5e-324, 1e-308, 1.7e308])
def test_the_least_and_the_highest_limit_yield_a_time(rate: float) -> None:
    quotas = Quotas()
    quotas.set(((CLIENT_ID, None),), {QuotaKey.FETCHED_BYTES: rate})
    waits = [quotas.use(QuotaKey.FETCHED_BYTES, "u", "c", amount, now_ms) for now_ms, amount in enumerate((0, 1, 9, 0))]
    assert all(0 <= wait_ms <= MAX_THROTTLE_MS for wait_ms in waits)
