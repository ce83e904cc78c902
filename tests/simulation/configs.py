"""Configurations of starts: small limits, so that everything happens often."""

from random import Random

from coordinator.config.config import Config
from partition_log.store.log_store import StoreLimits


def draw_limits(random: Random) -> StoreLimits:
    """Small, so that everything happens often; segments may differ from those of the start before."""
    return StoreLimits(
        wal_segment_bytes=random.choice((1 << 17, 1 << 18)),
        checkpoint_bytes=random.choice((1 << 14, 1 << 16, 1 << 17)),
        max_batch_bytes=1 << 16,
        spill_bytes=random.choice((1 << 11, 1 << 14, 1 << 16)),
        open_files=random.choice((4, 16, 256)),
    )


def draw_config(random: Random) -> Config:
    """Draw the keys that a restart may change."""
    return Config(
        group_initial_rebalance_delay_ms=random.choice((0, 500, 3_000)),
        group_max_size=random.choice((3, 1_000, 1_000)),
        group_min_session_timeout_ms=random.choice((1_000, 6_000)),
        journal_notes_per_group=random.choice((20, 200)),
        offsets_topic_num_partitions=5,
        offsets_topic_segment_bytes=random.choice((1 << 14, 1 << 16, 1 << 20)),
        kafka=None,
    )
