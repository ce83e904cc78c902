"""News of the disk reach the operator, each once."""

from coordinator.node.disk_news import DiskNews
from partition_log.store.log_store import LogStore
from tests.node.node_rig import LIMITS
from tests.simulation.disk import SimDisk


def test_each_change_is_told_once_and_damage_too() -> None:
    store = LogStore(SimDisk(1), "data", cluster_id="c", limits=LIMITS)
    store.open()
    news = DiskNews(store, "data")
    assert news.report() == []
    store.disk_full = True
    store.damaged["orders-1"] = "orders-1 cannot be read"
    assert [(one.level, one.sentence.split(":")[0]) for one in news.report()] == [
        ("error", "orders-1 cannot be read"),
        ("error", "the disk is full"),
    ]
    assert news.report() == []
    store.disk_full = False
    del store.damaged["orders-1"]
    assert [(one.level, one.sentence.split(":")[0]) for one in news.report()] == [("info", "the disk has room again")]
    store.damaged["orders-1"] = "orders-1 cannot be read"
    assert len(news.report()) == 1, "it was made anew, and is damaged again"


def test_a_start_on_a_full_disk_has_said_so_itself() -> None:
    store = LogStore(SimDisk(1), "data", cluster_id="c", limits=LIMITS)
    store.open()
    store.disk_full = True
    news = DiskNews(store, "data")
    assert news.report() == []
    store.disk_full = False
    assert len(news.report()) == 1
