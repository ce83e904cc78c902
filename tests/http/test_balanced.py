"""The pages about client-balanced groups, over a node that has some."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.http.app import make_app
from coordinator.http.client_balanced import level
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import DescribeBalanced, OwnedKey
from protocol.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigs, ResourceType
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, SyncGroup
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatePartitions, GrowingTopic
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig, RigClient
from tests.http.conftest import Browser
from tests.node.node_rig import WALL_MS


class NodeStub:
    """Puts the requests of the pages to the node; a reply in `refused` is returned instead."""

    def __init__(self, rig: GroupRig) -> None:
        self.rig = rig
        self.refused: dict[type[Message], Message] = {}

    async def __call__(self, message: Message) -> Message:
        instead = self.refused.get(type(message))
        if instead is not None:
            return instead
        reply = self.rig.node_rig.ask_inside(message, call=11)
        assert reply is not None
        return reply


@pytest.fixture
def rig() -> GroupRig:
    """Two nodes of three; what node 2 should read is nobody's, and 30 records behind."""
    made = GroupRig(3, group_initial_rebalance_delay_ms=0)
    for number in range(2):
        client = made.started(f"m{number}", source_count=3, node_id=number, consume_position="first")
        client.register(number)
        client.confirm(number, 0)
    third = made.started("m2", source_count=3, node_id=2, consume_position="first")
    third.register(2)
    third.confirm(2, 0)
    third.leave()
    for number, count in ((0, 5), (2, 30)):
        made.produce(number, count)
    classic = JoinGroup(
        "classic", SESSION_MS, protocol_type="consumer", protocols=(JoinProtocol("r"),), wants_member_id_first=False
    )
    made.node_rig.ask(made.connection(), classic)
    return made


@pytest.fixture
def node(rig: GroupRig) -> NodeStub:
    return NodeStub(rig)


@pytest.fixture
async def browser(node: NodeStub) -> AsyncIterator[Browser]:
    async with TestClient(TestServer(make_app(node))) as client:
        yield Browser(client)


async def test_groups_are_listed_by_mode(browser: Browser) -> None:
    assert await browser.get("/v1/groups?mode=client") == {"groups": ["g"]}
    assert await browser.get("/v1/groups?mode=server") == {"groups": ["classic"]}
    assert await browser.get("/v1/groups") == {"groups": ["classic", "g"]}
    assert (await browser.get("/v1/groups?mode=x", 400))["error_code"] == 40002


async def test_a_group_shows_its_members_by_number_and_what_each_reads(browser: Browser, rig: GroupRig) -> None:
    client = rig.member("m0")
    client.epoch, client.meta_version = 1, 1
    client.beat(owned=(OwnedKey("1:demo:0", 1, 3), OwnedKey("1:demo:1", 1, 0)), owned_version=1)
    rig.node_rig.wait(2_000)
    group = await browser.get("/v1/groups/g")
    first, second = group.pop("members")
    assert group == {
        "group": "g",
        "mode": "client",
        "state": "Stable",
        "topics": ["demo"],
        "filters": {},
        "source_count": 3,
        "meta_version": 1,
        "member_count": 2,
    }
    assert first == {
        "consumer_id": "m0",
        "instance_id": None,
        "host": "10.0.0.1",
        "node_id": 0,
        "source_count": 3,
        "member_epoch": 1,
        "last_heartbeat_ms_ago": 2_000,
        "partition_count": 1,
        "partitions": [
            {"key": "1:demo:0", "reg_epoch": 1, "position": 3, "committed": 0, "end": 5, "lag": 5}
            | {"lag_seconds": None, "commit_age_seconds": 2}
        ],
        "claimed_mismatch": ["1:demo:1"],
    }
    assert (second["node_id"], second["partitions"][0]["position"]) == (1, None)


async def test_every_configured_partition_is_shown_whoever_reads_it(browser: Browser) -> None:
    listed = (await browser.get("/v1/groups/g/partitions"))["partitions"]
    assert [(one["key"], one["owner"], one["node_id"], one["lag"]) for one in listed] == [
        ("1:demo:0", "m0", 0, 5),
        ("1:demo:1", "m1", 1, 0),
        ("1:demo:2", None, None, 30),
    ]
    one = await browser.get(f"/v1/groups/g/partitions/{quote('1:demo:2', safe='')}")
    assert one == {
        "key": "1:demo:2",
        "subscribable": True,
        "reason": None,
        "owner": None,
        "node_id": None,
        "reg_epoch": 1,
        "since_ms": None,
        "committed": 0,
        "in_flight": None,
        "end": 30,
        "lag": 30,
        "level": 0,
        "lag_seconds": None,
        "commit_age_seconds": 0,
    }


async def test_lag_is_summed_and_what_nobody_reads_stands_out(browser: Browser) -> None:
    told = await browser.get("/v1/groups/g/lag")
    assert told == {
        "total": 35,
        "unowned": 30,
        "by_node": {"0": 5, "1": 0},
        "by_topic": {"demo": 35},
        "max_lag_seconds": None,
        "commit_age_seconds": 0,
    }


async def test_a_second_look_says_how_many_seconds_a_partition_is_behind(browser: Browser, rig: GroupRig) -> None:
    await browser.get("/v1/groups/g/lag")
    rig.produce(1, 10)
    rig.node_rig.wait(20_000)

    listed = (await browser.get("/v1/groups/g/partitions"))["partitions"]
    told = await browser.get("/v1/groups/g/lag")

    assert [(one["lag_seconds"], one["commit_age_seconds"]) for one in listed] == [(20, 20), (20, 20), (20, 20)]
    assert (told["max_lag_seconds"], told["commit_age_seconds"]) == (20, 20)


async def test_a_topic_names_the_groups_that_read_it(browser: Browser) -> None:
    expected = {"topic": "demo", "groups": [{"group": "g", "member_count": 2}]}
    assert await browser.get("/v1/topics/demo/groups") == expected
    assert await browser.get("/v1/topics/other/groups") == {"topic": "other", "groups": []}


async def test_it_names_groups_that_subscribe_and_groups_that_have_commits(browser: Browser, rig: GroupRig) -> None:
    metadata = encode_subscription(Subscription(topics=("demo",)))
    join = JoinGroup(
        "reader",
        SESSION_MS,
        protocol_type="consumer",
        protocols=(JoinProtocol("r", metadata),),
        wants_member_id_first=False,
    )
    one = rig.connection()
    (joined,) = rig.node_rig.ask(one, join)
    assert isinstance(joined, JoinGroupReply)
    rig.node_rig.ask(one, SyncGroup("reader", joined.generation_id, joined.member_id))
    commit = OffsetCommit("simple", (OffsetCommitTopic("demo", (OffsetCommitPartition(0, 1),)),))
    rig.node_rig.ask(rig.connection(), commit)

    found = (await browser.get("/v1/topics/demo/groups"))["groups"]

    assert found == [
        {"group": "g", "member_count": 2},
        {"group": "reader", "member_count": 1},
        {"group": "simple", "member_count": 0},
    ]


async def test_a_group_has_one_lag_wherever_it_is_shown(browser: Browser, rig: GroupRig) -> None:
    rig.node_rig.make_topic("new", 2)
    rig.started("n0", group_id="fresh", topics=("new",), consume_position="first")
    rig.produce(1, 7, "new")

    (cluster,) = (await browser.get("/v3/clusters"))["data"]
    summary = await browser.get(f"/v3/clusters/{cluster['cluster_id']}/consumer-groups/fresh/lag-summary")

    assert (await browser.get("/v1/groups/fresh/lag"))["total"] == summary["total_lag"] == 7
    page = await browser.text("/metrics")
    assert 'kafka_consumergroup_lag_sum{consumergroup="fresh",topic="new"} 7.0' in page


@pytest.mark.parametrize(
    "path",
    [
        "/v1/groups/nobody",
        "/v1/groups/nobody/partitions",
        "/v1/groups/nobody/lag",
        "/v1/groups/g/partitions/1:demo:9",
        "/v1/groups/classic/lag",
    ],
)
async def test_what_is_unknown_is_a_404(browser: Browser, path: str) -> None:
    told = await browser.get(path, 404)
    assert told["err"] == 404 and told["msg"] == told["message"]


async def test_a_group_that_the_server_balances_says_so(browser: Browser) -> None:
    told = await browser.get("/v1/groups/classic")
    assert (told["mode"], told["member_count"]) == ("server", 1)


async def test_a_group_that_the_server_balances_says_whom_it_waits_for(browser: Browser, rig: GroupRig) -> None:
    told = await browser.get("/v1/groups/classic")
    (member,) = told["members"]

    assert (told["phase"], told["waiting_for"]) == ("sync", [member["member_id"]])
    assert told["waiting_for_sentence"].startswith(f"{member['client_id'] or '(unnamed)'} at {member['host']}")
    assert (member["heard_ago_ms"], member["session_timeout_ms"], member["is_connected"]) == (0, 30_000, True)


async def test_going_to_the_end_is_asked_for_by_post_and_accepted(browser: Browser, rig: GroupRig) -> None:
    status, text, _ = await browser.request("POST", "/v1/groups/g/consume-from-max?actor=ops")
    assert (status, text) == (202, '{"group":"g","from_max_id":1}')
    for group_id, wanted in (("classic", 409), ("nobody", 404)):
        status, text, _ = await browser.request("POST", f"/v1/groups/{group_id}/consume-from-max")
        assert status == wanted, text
    status, _, headers = await browser.request("GET", "/v1/groups/g/consume-from-max")
    assert (status, headers["Allow"]) == (405, "POST")


async def test_who_asked_is_where_it_came_from_and_a_name_that_is_given_a_remark(browser: Browser) -> None:
    await browser.request("POST", "/v1/groups/g/consume-from-max?actor=the%20boss")
    await browser.request("POST", f"/v1/groups/g/consume-from-max?actor={'x' * 5_000}")
    notes = (await browser.get("/v1/groups/g/notes"))["notes"]
    found = [(one["initiator"], one["detail"]) for one in notes if one["cause"] == "told to consume from the end"]
    assert found[0] == ("HTTP", "2 partitions are owned; remark: the boss")
    assert found[1] == ("HTTP", f"2 partitions are owned; remark: {'x' * 200}")


async def test_a_refusal_of_the_node_is_passed_on(browser: Browser, node: NodeStub) -> None:
    node.refused[DescribeBalanced] = ErrorReply(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert (await browser.get("/v1/groups/g", 503))["err"] == 503


@pytest.mark.parametrize(
    ("lag", "bad"), [(None, None), (0, 0), (100_000, 0), (100_001, 1), (1_000_000, 1), (1_000_001, 2)]
)
def test_how_bad_a_lag_is(lag: int | None, bad: Any) -> None:
    assert level(lag) == bad


def pass_time(rig: GroupRig, *clients: RigClient, seconds: int) -> None:
    """Let time pass, in which these members send heartbeats."""
    for _ in range(0, seconds, 10):
        for client in clients:
            client.beat()
        rig.node_rig.wait(10_000)


async def problems(browser: Browser, group_id: str = "g") -> dict[str, Any]:
    return {one["kind"]: one for one in (await browser.get(f"/v1/problems?group={group_id}"))["problems"]}


async def test_partitions_that_nobody_reads_any_more_are_a_problem_after_a_minute(
    browser: Browser, rig: GroupRig
) -> None:
    """Two nodes of three read; nobody ever read the fourth partition, as members may choose."""
    rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 4),)), call=12)
    clients = [rig.member(f"m{number}") for number in range(2)]
    for number, client in enumerate(clients):
        client.epoch, client.meta_version = number + 1, 1
    left_ms = WALL_MS + rig.node_rig.now_ms
    pass_time(rig, *clients, seconds=50)
    assert "unowned_partitions" not in await problems(browser), "a third may be on its way"
    pass_time(rig, *clients, seconds=20)

    found = (await problems(browser))["unowned_partitions"]

    assert found["sentence"] == "no member has demo-2, though members subscribe to it"
    assert (found["partitions"], found["records"], found["since_ms"]) == (1, 30, left_ms)

    rig.node_rig.ask_inside(forbidding("g", "demo"), call=13)
    assert "unowned_partitions" not in await problems(browser), "nobody may read it"


def forbidding(group_id: str, topic: str) -> IncrementalAlterConfigs:
    changed = AlterableConfig("group.forbidden.topics", 0, topic)
    return IncrementalAlterConfigs((AlterConfigsResource(ResourceType.GROUP, group_id, (changed,)),))


async def test_members_beyond_the_number_of_partitions_are_a_problem_after_a_while(
    browser: Browser, rig: GroupRig
) -> None:
    clients = [rig.started(f"n{number}", group_id="h") for number in range(4)]
    for number in range(3):
        clients[number].register(number)
    pass_time(rig, *clients, seconds=590)
    assert "idle_members" not in await problems(browser, "h")
    pass_time(rig, *clients, seconds=20)

    found = (await problems(browser, "h"))["idle_members"]

    assert found["sentence"].startswith("4 members share 3 partitions: 1 has none, ")
    assert found["member_id"] == "n3"


async def test_the_console_shows_how_many_partitions_each_member_owns(browser: Browser) -> None:
    page = await browser.text("/console/group?id=g")
    assert page.count('data-label="Partitions" class="num">1<') == 2
