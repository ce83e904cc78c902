"""A data folder is served only with the settings that it was made with."""

from pathlib import Path

import pytest

from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import Config, ConfigError
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.start.data_folder import open_store
from partition_log.disk.disk import OsDisk


def opened(config: Config) -> str:
    """Open the folder and close it again; return the id of its cluster."""
    store = open_store(config, OsDisk(), ClusterIdentity(Path(config.data_dir)))
    try:
        return store.identity.cluster_id
    finally:
        store.close()


def test_a_folder_keeps_the_cluster_id_that_it_was_made_with(tmp_path: Path) -> None:
    made = opened(Config(data_dir=str(tmp_path)))
    assert made == opened(Config(data_dir=str(tmp_path)))


def test_another_number_of_shards_is_refused_and_leaves_the_folder_to_the_next_start(tmp_path: Path) -> None:
    opened(Config(data_dir=str(tmp_path), offsets_topic_num_partitions=4))
    with pytest.raises(ConfigError, match=r"offsets\.topic\.num\.partitions is 5, but .* was made with 4"):
        opened(Config(data_dir=str(tmp_path), offsets_topic_num_partitions=5))
    opened(Config(data_dir=str(tmp_path), offsets_topic_num_partitions=4))


def test_a_folder_with_a_log_of_its_own_is_not_served_as_one_in_the_cluster(tmp_path: Path) -> None:
    opened(Config(data_dir=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"offsets\.log is cluster, but .* was made with local.* musterd log move"):
        opened(Config(data_dir=str(tmp_path), offsets_log=OffsetsLog.CLUSTER))
