"""The log of a daemon: one line at its start, and lines about what an operator must know."""

import json
from pathlib import Path
from typing import Any

import pytest

from muster.blocking import ClusterClient
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import running, within

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")


def lines(tmp_path: Path, event: str) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in (tmp_path / "data.log").read_text().splitlines()]
    return [line for line in told if line["event"] == event]


@pytest.mark.long
def test_the_log_tells_what_is_served_and_what_happens_to_groups(tmp_path: Path) -> None:
    with running(tmp_path / "data", *SETTINGS, with_http=True) as daemon:
        (serving,) = lines(tmp_path, "serving")
        assert serving["version"].startswith("musterd ")
        assert serving["listeners"]["native"] == daemon.bootstrap
        assert serving["settings"]["group.min.session.timeout.ms"] == "100"
        assert "node.id" not in serving["settings"], "only what differs from the default"

        with ClusterClient(daemon.bootstrap) as stranger:
            stranger.ask(CreateTopics((CreatableTopic("t", 1),)))
            offered = (JoinProtocol("range", b""),)
            joined = stranger.ask(JoinGroup("g", 100, "", "x", offered, wants_member_id_first=False))
            assert isinstance(joined, JoinGroupReply)
            refused = stranger.ask(JoinGroup("other", 1, "", "x", offered))
            assert isinstance(refused, JoinGroupReply) and refused.error_code
        assert within(60, lambda: lines(tmp_path, "member evicted"))
        (evicted,) = lines(tmp_path, "member evicted")
        assert (evicted["group"], evicted["reason"], evicted["count"]) == ("g", "session expired", 1)
        (act,) = lines(tmp_path, "act on the node")
        assert (act["act"], act["host"]) == ("create topic", "127.0.0.1")
        assert within(60, lambda: lines(tmp_path, "problem opened"))
        opened = lines(tmp_path, "problem opened")[0]
        assert (opened["group"], opened["reason"], opened["level"]) == ("other", "join_refused", "warning")
