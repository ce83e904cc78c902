"""Three nodes that share the groups of a cluster, each with its HTTP interface: any of them answers for all groups."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.cluster_log.events import OwnershipGiven, OwnershipLost
from coordinator.cluster_node.events import NodesFound, ShardChanged
from coordinator.cluster_node.nodes import NodeView
from coordinator.http.app import make_app
from coordinator.http.nodes.all_nodes import NodesPlan
from coordinator.http.nodes.node_routes import FRAME_MEDIA
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    DescribeGroups,
    DescribeGroupsReply,
    JoinGroup,
    JoinGroupReply,
    ListGroups,
    ListGroupsReply,
)
from protocol.messages.node import HttpLoginReply, Measure
from protocol.native.client import NativeAnswer, NativeClient
from protocol.record_batch import encode_batch
from tests.cluster_node.rig import Cluster, LogNode
from tests.cluster_node.test_service import committing, joined
from tests.http.documented import check_answer

GROUPS = ("a", "b", "c", "d", "e")
"""By shard: c has 0; a, d have 1; b, e have 2."""
V3 = "/v3/clusters/c/consumer-groups"
WITHIN_S = 4.0


class HttpNode:
    """A node, its application, and what it is asked."""

    def __init__(self, node: LogNode, within_s: float, door: "_Door | None") -> None:
        self.node = node
        self.asked: list[Message] = []
        self.is_silent = False
        placement = node.node.core.placement
        app = make_app(
            self._ask, nodes=NodesPlan(placement, self._served), nodes_answer_within_s=within_s, authenticator=door
        )
        self.http: TestClient[Any, Any] = TestClient(TestServer(app))

    def _served(self) -> list[int]:
        return [shard.index for shard in self.node.node.core.shards if shard.state is ShardState.ACTIVE]

    async def _ask(self, message: Message) -> Message:
        self.asked.append(message)
        if self.is_silent:
            await asyncio.Event().wait()
        reply = self.node.ask(message)
        assert reply is not None
        return reply

    @property
    def view(self) -> NodeView:
        assert self.http.port is not None
        return NodeView(
            self.node.node_id, {"http": (self.http.host, self.http.port), "native": ("n", self.node.node_id)}
        )

    async def get(self, path: str, status: int = 200) -> Any:
        answer = await self.http.get(path)
        body = await answer.json()
        assert answer.status == status, body
        check_answer("GET", path, status, answer.content_type, body)
        return body

    async def post(self, path: str, body: Any, status: int = 200) -> Any:
        headers = {"Content-Type": "application/json"}
        answer = await self.http.post(path, data=msgspec.json.encode(body), headers=headers)
        found = await answer.json()
        assert answer.status == status, found
        return found


class Site:
    """The nodes; node N has shard N - 1."""

    def __init__(self, within_s: float, doors: "Sequence[_Door | None]") -> None:
        self.cluster = Cluster()
        self.nodes = [HttpNode(self.cluster.start(node_id), within_s, doors[node_id - 1]) for node_id in (1, 2, 3)]

    def place(self, *owners: int, views: tuple[NodeView, ...] | None = None) -> None:
        """Tell all nodes who has each shard, and have the owners serve."""
        for one in self.nodes:
            one.node.step(NodesFound(views or tuple(other.view for other in self.nodes), owners))
        for shard, owner in enumerate(owners):
            for one in self.nodes:
                if one.node.node_id == owner:
                    one.node.step(ShardChanged(shard, OwnershipGiven()))
                    one.node.rest()

    def owner(self, group_id: str) -> HttpNode:
        shard = self.nodes[0].node.node.core.placement.shard_of(group_id)
        return self.nodes[shard]

    def others(self, group_id: str) -> Iterator[HttpNode]:
        return (one for one in self.nodes if one is not self.owner(group_id))

    def commit(self, *group_ids: str) -> None:
        for group_id in group_ids:
            self.owner(group_id).node.ask(committing(group_id, 1))


@asynccontextmanager
async def site_of(within_s: float, doors: "Sequence[_Door | None]" = (None,) * 3) -> AsyncIterator[Site]:
    site = Site(within_s, doors)
    for one in site.nodes:
        await one.http.start_server()
    try:
        site.place(1, 2, 3)
        yield site
    finally:
        for one in site.nodes:
            await one.http.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with site_of(30.0) as site:
        site.commit(*GROUPS)
        yield site


@pytest.fixture
async def hasty() -> AsyncIterator[Site]:
    """A site whose nodes wait for each other for a moment only."""
    async with site_of(WITHIN_S) as site:
        site.commit(*GROUPS)
        yield site


def silent(why: str, node_id: int = 2, shards: tuple[int, ...] = (1,)) -> dict[str, Any]:
    return {"nodes": [{"node_id": node_id, "why": why}], "shards": list(shards)}


# --- all groups ---


async def test_any_node_lists_the_groups_of_all(site: Site) -> None:
    assert {site.owner(group_id) for group_id in GROUPS} == set(site.nodes)
    for one in site.nodes:
        assert await one.get("/v1/groups") == {"groups": list(GROUPS)}
        overview = await one.get("/v1/overview?sort=-group&page_size=2&page_token=1")
        assert ([row["group_id"] for row in overview["data"]], overview["next_page_token"]) == (["d", "c"], "3")
        assert (overview["groups"], overview["states"], "unavailable" in overview) == (5, {"Empty": 5}, False)
        found = await one.get(V3)
        assert [group["consumer_group_id"] for group in found["data"]] == list(GROUPS)
        coordinators = [group["coordinator"]["related"].rpartition("/")[2] for group in found["data"]]
        assert coordinators == [str(site.owner(group_id).node.node_id) for group_id in GROUPS]


async def test_pages_go_on_across_nodes(site: Site) -> None:
    found: list[str] = []
    path: str | None = f"{V3}?page_size=2"
    while path is not None:
        page = await site.nodes[0].get(path)
        found += [group["consumer_group_id"] for group in page["data"]]
        path = page["metadata"]["next"] and page["metadata"]["next"].partition(":")[2].partition("/v3")[2]
        path = path and f"/v3{path}"
    assert found == list(GROUPS)


async def test_lists_are_filtered_and_sorted_over_all_nodes(site: Site) -> None:
    joined(site.owner("d").node, "d")
    for one in site.nodes:
        stable = await one.get("/v1/overview?state=Stable")
        assert ([row["group_id"] for row in stable["data"]], stable["matching"]) == (["d"], 1)
        most = await one.get("/v1/overview?sort=-members&page_size=1")
        assert [(row["group_id"], row["members"]) for row in most["data"]] == [("d", 1)]
        by_lag = await one.get("/v1/overview?sort=-lag")
        assert [(row["group_id"], row["partitions"]) for row in by_lag["data"]] == [(one_id, 4) for one_id in GROUPS]


async def test_a_topic_has_readers_of_all_nodes(site: Site) -> None:
    page = await (await site.nodes[0].http.get("/console/topic?name=t", headers={"Accept": "text/html"})).text()
    assert all(f"/console/group?id={group_id}" in page for group_id in GROUPS)


async def test_problems_are_those_of_all_nodes(site: Site) -> None:
    for group_id in ("a", "c"):
        member = JoinGroup(group_id, 1, "", "consumer", ())
        reply = site.owner(group_id).node.ask(member)
        assert isinstance(reply, JoinGroupReply) and reply.error_code is ErrorCode.INVALID_SESSION_TIMEOUT
    for one in site.nodes:
        found = await one.get("/v1/problems")
        assert [(each["group_id"], each["kind"]) for each in found["problems"]] == [
            ("a", "join_refused"),
            ("c", "join_refused"),
        ]
        assert (await one.get("/v1/overview?problem=any"))["matching"] == 2
    assert [each["group_id"] for each in (await site.nodes[0].get("/v1/problems?group=a"))["problems"]] == ["a"]


async def test_metrics_and_readiness_are_the_nodes_own(site: Site) -> None:
    for one in site.nodes:
        metrics = await (await one.http.get("/metrics")).text()
        own = {group_id for group_id in GROUPS if site.owner(group_id) is one}
        assert {group_id for group_id in GROUPS if f'group="{group_id}"' in metrics} == own
        assert (await one.get("/readyz"))["shards_loaded"] == 1


# --- one group ---


async def test_any_node_shows_a_group(site: Site) -> None:
    member, _ = joined(site.owner("a").node, "a")
    for one in site.nodes:
        consumers = await one.get(f"{V3}/a/consumers")
        assert [each["consumer_id"] for each in consumers["data"]] == [member]
        assert (await one.get(f"{V3}/a/lag-summary"))["consumer_group_id"] == "a"
        offsets = await one.get("/v1/groups/a/offsets")
        assert [each["offset"] for each in offsets["offsets"]] == [1]
        assert (await one.get("/v1/groups/a/notes"))["notes"][0]["cause"] == "member joined"
        await one.get("/v1/groups/nobody/notes", 404)


async def test_a_change_is_made_where_the_group_is_in_the_name_of_who_asked(site: Site) -> None:
    owner = site.owner("a")
    record = ProducePartition(0, encode_batch([(None, b"record")], timestamp_ms=1))
    for one in site.nodes:
        one.node.ask(Produce((ProduceTopic("t", (record,)),), acks=1, timeout_ms=1_000))
    for one in site.others("a"):
        plan = await one.post("/v1/groups/a/offsets/plan", {"to_offset": 0, "topics": {"t": [0]}})
        done = await one.post("/v1/groups/a/offsets/apply", plan)
        assert done["changed"] == 1
        note = (await owner.get("/v1/groups/a/notes"))["notes"][-1]
        assert (note["act"], note["origin"]["client_host"]) == ("reset", "127.0.0.1")
        await one.post(f"/v1/undo/{done['id']}", {})
    assert [each["offset"] for each in (await owner.get("/v1/groups/a/offsets"))["offsets"]] == [1]


# --- nodes and shards that are missing ---


async def test_a_node_that_is_silent_is_told_of_in_time_with_its_shards(hasty: Site) -> None:
    hasty.nodes[1].is_silent = True
    where = hasty.nodes[1].view.addresses["http"]
    missing = silent(f"it did not answer within 4 s ({where[0]}:{where[1]})")
    paths = ("/v1/groups", "/v1/problems", "/v1/overview", V3, "/v1/topics/t/groups")
    asked = asyncio.gather(*map(hasty.nodes[0].get, paths))
    shown = await hasty.nodes[0].http.get("/", headers={"Accept": "text/html"})  # waits at the same time
    listed, problems, *others = await asked
    assert listed == {"groups": ["b", "c", "e"], "unavailable": missing}
    assert problems["unavailable"]["nodes"] == missing["nodes"]
    for found in others:
        assert found["unavailable"] == missing
    page = await shown.text()
    assert "Node 2 is missing: it did not answer within 4 s" in page
    assert "No node answers for 1 shard: their groups are not shown." in page
    assert "Not every group can be seen" in page


async def test_a_node_that_was_killed_is_told_of(site: Site) -> None:
    await site.nodes[1].http.close()
    found = await site.nodes[0].get("/v1/groups")
    (node,) = found["unavailable"]["nodes"]
    assert (found["groups"], node["node_id"], found["unavailable"]["shards"]) == (["b", "c", "e"], 2, [1])
    assert node["why"].startswith("it cannot be reached at ")
    refused = await site.nodes[0].get(f"{V3}/a", 503)
    assert refused["message"].startswith("node 2 has group 'a': it cannot be reached at ")


async def test_a_shard_without_an_owner_is_told_of(site: Site) -> None:
    site.place(1, -1, 3)
    site.nodes[1].node.step(ShardChanged(1, OwnershipLost()))
    found = await site.nodes[0].get("/v1/groups")
    assert found == {"groups": ["b", "c", "e"], "unavailable": {"nodes": [], "shards": [1]}}
    refused = await site.nodes[0].get(f"{V3}/a", 503)
    assert refused["message"] == "no node that can be asked has the shard of group 'a' now; try again"


async def test_a_shard_that_its_owner_does_not_serve_yet_is_told_of(site: Site) -> None:
    site.nodes[1].node.step(ShardChanged(1, OwnershipLost()))
    assert (await site.nodes[0].get("/v1/groups"))["unavailable"] == {"nodes": [], "shards": [1]}
    assert (await site.nodes[1].get("/v1/groups"))["unavailable"] == {"nodes": [], "shards": [1]}
    refused = await site.nodes[0].get(f"{V3}/a", 503)
    assert refused["message"].startswith("the group's shard is not served here")


async def test_a_node_without_an_http_listener_is_told_of(site: Site) -> None:
    views = (site.nodes[0].view, NodeView(2, {"kafka": ("k", 1)}), site.nodes[2].view)
    site.place(1, 2, 3, views=views)
    why = "it has no HTTP address (--http, --advertised http=HOST:PORT)"
    assert (await site.nodes[0].get("/v1/groups"))["unavailable"] == silent(why)


async def test_an_address_that_is_another_nodes_is_told_of(site: Site) -> None:
    mistaken = NodeView(2, site.nodes[0].view.addresses)
    site.place(1, 2, 3, views=(site.nodes[0].view, mistaken, site.nodes[2].view))
    (node,) = (await site.nodes[0].get("/v1/groups"))["unavailable"]["nodes"]
    assert node["node_id"] == 2
    assert node["why"].endswith("this is node 1, not '2': set each node's own address by --advertised http=HOST:PORT")


async def test_a_group_that_two_nodes_tell_of_is_listed_once(site: Site) -> None:
    site.nodes[2].node.step(ShardChanged(1, OwnershipGiven()))  # the claim fences node 2, which has not heard of it
    site.nodes[2].node.rest()
    assert (await site.nodes[0].get("/v1/groups"))["groups"] == list(GROUPS)


# --- what nodes ask each other ---


async def ask(node: HttpNode, message: Message, as_node: int | None = None) -> Message:
    native = NativeClient(1 << 20)
    _, frame = native.encode_request(message)
    path = f"/v1/nodes/{as_node or node.node.node_id}/ask"
    answer = await node.http.post(path, data=frame, headers={"Content-Type": FRAME_MEDIA})
    assert answer.status == 200, await answer.text()
    (reply,) = native.receive_data(await answer.read())
    assert isinstance(reply, NativeAnswer)
    return reply.reply


async def test_a_request_that_a_node_passed_on_goes_no_further(site: Site) -> None:
    listed = await ask(site.nodes[0], ListGroups())
    assert isinstance(listed, ListGroupsReply)
    assert [one.group_id for one in listed.groups] == ["c"]
    described = await ask(site.nodes[0], DescribeGroups(("a",)))
    assert isinstance(described, DescribeGroupsReply)
    assert described.groups[0].error_code is ErrorCode.NOT_COORDINATOR
    assert not site.nodes[1].asked


async def test_nodes_pass_on_nothing_but_requests_about_groups(site: Site) -> None:
    with pytest.raises(KeyError):
        NativeClient(1 << 20).encode_request(Measure(1))
    joining = await ask(site.nodes[0], JoinGroup("c", 30_000, "", "consumer", ()))
    assert isinstance(joining, JoinGroupReply)
    assert joining.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert not site.nodes[0].asked


async def test_bytes_that_are_no_request_are_refused(site: Site) -> None:
    answer = await site.nodes[0].http.post("/v1/nodes/1/ask", data=b"\xc1", headers={"Content-Type": FRAME_MEDIA})
    assert (answer.status, (await answer.json())["message"].split(":")[0]) == (400, "no request of the native protocol")


class _Door:
    """An authenticator that knows one user."""

    def __init__(self) -> None:
        self.given: list[tuple[str | None, str]] = []

    async def log_in(
        self, username: str | None, password: str, host: str, *, opens_session: bool = False, certificate: str = ""
    ) -> Message:
        self.given.append((username, password))
        is_right = (username, password) == ("alice", "secret")
        return HttpLoginReply("User:alice") if is_right else HttpLoginReply(error_code=_WRONG)

    async def show_session(self, secret: str, host: str, *, is_end: bool = False) -> Message:
        return HttpLoginReply("User:alice")


_WRONG = ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_callers_password_goes_along_to_the_other_nodes_and_a_cookie_does_not() -> None:
    doors = [_Door() for _ in range(3)]
    async with site_of(60.0, doors) as site:
        site.commit(*GROUPS)
        basic = {"Authorization": "Basic " + b64encode(b"alice:secret").decode()}
        first = site.nodes[0].http
        answer = await first.get("/v1/groups", headers=basic)
        assert set((await answer.json())["groups"]) == set(GROUPS)
        assert all(door.given and set(door.given) == {("alice", "secret")} for door in doors)
        for door in doors:
            door.given.clear()
        cookie = {"Cookie": f"muster_session_{first.port}=x"}
        answer = await first.get("/v1/groups", headers=cookie)
        assert set((await answer.json())["groups"]) < set(GROUPS), "a session is of one node"
        assert not any(door.given for door in doors)
