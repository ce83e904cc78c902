"""Bugs of the log: what is durable, what recovery believes, what compaction keeps."""

from tests.mutants.mutant import Edit, Mutant, Test, Worlds

_COMPACTION = "partition_log/compaction/compaction_pass.py"
_JOBS = "partition_log/store/jobs.py"
_DISK_JOBS = "coordinator/io/disk_jobs.py"
_RECOVERY = "partition_log/wal/reader.py"
_SWAPPING = "partition_log/log/segment_swap.py"
_CRASH_FILE = "tests/partition_log/test_crashes.py"
_CRASHES = Test(f"{_CRASH_FILE}::test_a_crash_before_any_operation_loses_nothing_that_was_acknowledged")
_LIVES = Test("tests/node/test_any_compaction.py::test_a_life_that_is_cleaned_again_and_again_stays_what_it_was")
_CLEANING_CRASHES = Test(
    "tests/partition_log/test_compaction_crashes.py::test_a_crash_before_any_operation_loses_nothing"
)

MUTANTS = (
    Mutant(
        "flush-without-sync",
        "A flush writes and does not sync",
        (Edit(_JOBS, "            disk.sync(write.handle)  # each", "            disk.size(write.handle)  # each"),),
        Worlds(),
    ),
    Mutant(
        "checkpoint-of-what-is-not-synced",
        "A checkpoint names ends of logs that it has not synced",
        (
            Edit(
                _JOBS,
                "        self.unsynced.sync_all()\n",
                "        self.unsynced.close()\n",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "failed-sync-is-a-full-disk",
        "A sync that failed with ENOSPC or EDQUOT is retried, and the second one has nothing to sync",
        (
            Edit(
                "partition_log/disk/disk.py",
                " in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailed)\n",
                " in (errno.ENOSPC, errno.EDQUOT)\n",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "synced-by-a-new-handle",
        "A checkpoint opens files again to sync them: an earlier lost write goes unreported, and the log is lost",
        (
            Edit(
                "partition_log/disk/unsynced_files.py",
                "            self._disk.sync(handle)\n",
                "            self._disk.close(handle)\n"
                "            handle = self._handles[path] = self._disk.open(path)\n"
                "            self._disk.sync(handle)\n",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "loop-writes-ahead",
        "The loop writes a flush to the page cache: timely heartbeats wait while the file system hangs",
        (
            Edit(
                _DISK_JOBS,
                "        self._flushing.run(",
                "        for one in job.writes:\n"
                "            self._disk.write_at(one.handle, one.position, one.data)\n"
                "        self._flushing.run(",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "loop-spills",
        "The loop itself writes unflushed bytes of logs to their files",
        (
            Edit(
                _DISK_JOBS,
                "        self._working.run(",
                "        try:\n"
                "            for one in job.spills:\n"
                "                job.unsynced.write(one.path, one.position, one.data)\n"
                "        except OSError:\n"
                "            pass  # the job finds out as well\n"
                "        self._working.run(",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "folder-of-a-new-log-not-synced",
        "The name of a new segment is not synced with its bytes: a power failure loses the file",
        (
            Edit(
                _JOBS,
                "            disk.sync_folder(folder)\n        write_checkpoint",
                "            pass\n        write_checkpoint",
            ),
        ),
        _CRASHES,
        "KAFKA-3968",
    ),
    Mutant(
        "torn-offset-is-damage",
        "A batch that was not synced, and of which a power failure took the offset alone, is read as one of offset 0: "
        "the log is taken for damaged",
        (
            Edit(
                "partition_log/segments/segment.py",
                "            if next_offset > end or self.next_offset == end:\n",
                "            if next_offset > end:\n",
            ),
        ),
        Test(
            "tests/partition_log/test_log_store.py::"
            "test_a_batch_behind_the_end_whose_offset_was_lost_in_a_crash_is_cut_like_any_other"
        ),
    ),
    Mutant(
        "torn-tail-is-damage",
        "A block torn by a power failure counts as damage, and the node does not start",
        (
            Edit(
                _RECOVERY,
                '        self.torn = f"{path} at position {at}"\n        return True\n',
                '        raise LogDamaged(path, at, None, "a block does not hold", ADVICE)\n',
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "damage-is-a-torn-tail",
        "A damaged block in the middle counts as a torn tail: acknowledged records after it are cut off",
        (
            Edit(
                _RECOVERY,
                "            if later % SECTOR == 0 and block_at(data, later, base) is not None:\n",
                "            if later < 0:\n",
            ),
        ),
        Test(
            "tests/partition_log/test_write_ahead_log.py::test_damage_before_a_later_flush_stops_the_start_and_names_the_place"
        ),
    ),
    Mutant(
        "torn-body-believed",
        "A block with an intact head is accepted without a check of its body",
        (
            Edit(
                "partition_log/wal/layout.py",
                "    return body if len(body) == block.body_bytes and crc32c(body) == block.body_crc else None\n",
                "    return body if len(body) == block.body_bytes else None\n",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "write-ahead-segments-freed-early",
        "A segment of the write-ahead log is used again although the last checkpoint does not cover it",
        (
            Edit(
                "partition_log/wal/write_ahead_log.py",
                "        done = min(block, self.flushed)\n",
                "        done = self.flushed\n",
            ),
        ),
        _CRASHES,
    ),
    Mutant(
        "removed-by-a-killed-start",
        "A checkpoint does not sync names that a start which was killed removed: a power failure brings a segment back",
        (
            Edit(
                "partition_log/log/partition_log.py",
                "        if not self._has_spilled or (segment.written == 0 and not segment.spilling):\n",
                "        if segment.written == 0 and not segment.spilling:\n",
            ),
        ),
        Test(f"{_CRASH_FILE}::test_what_a_killed_start_removed_does_not_come_back_within_the_log"),
    ),
    Mutant(
        "cleaning-above-the-checkpoint",
        "Compaction takes records that are not durable for the last of their keys: a crash loses both",
        (
            Edit(
                "partition_log/log/partition_log.py",
                "        count = self.segments.count_below(self.checkpointed_offset)",
                "        count = self.segments.count_below(self.next_offset)",
            ),
            Edit(
                "partition_log/log/partition_log.py",
                "        while count > 0 and self.segments[count - 1].is_busy:\n            count -= 1\n        return",
                "        return",
            ),
        ),
        Test(
            "tests/node/test_every_crash.py::test_a_crash_anywhere_in_a_nodes_life_loses_nothing_acknowledged_and_takes_nothing_back"
        ),
        "KAFKA-13194",
    ),
    Mutant(
        "compaction-does-not-see-tombstones",
        "A tombstone does not replace the value before it: when the tombstone is removed, the value is back",
        (
            Edit(
                _COMPACTION,
                "            if record.key is not None:\n",
                "            if record.key is not None and record.has_value:\n",
            ),
        ),
        _LIVES,
    ),
    Mutant(
        "tombstones-go-too-early",
        "Compaction drops a tombstone at once: a reader in progress never sees it",
        (
            Edit(
                _COMPACTION,
                "        may_drop = 0 <= horizon_ms <= self._wall_ms\n",
                "        may_drop = horizon_ms <= self._wall_ms\n",
            ),
        ),
        Test(
            "tests/partition_log/test_compaction.py::test_a_tombstone_stays_for_its_time_and_then_goes_without_new_records"
        ),
        "KAFKA-4529",
    ),
    Mutant(
        "tombstones-never-go",
        "Every pass renews the times of tombstones, so that those of a busy log are never removed",
        (Edit(_COMPACTION, "        elif horizon_ms < 0:\n", "        else:\n"),),
        Test(
            "tests/partition_log/test_compaction.py::test_a_tombstone_goes_in_its_time_however_often_the_log_is_cleaned_meanwhile"
        ),
        "KAFKA-8522",
    ),
    Mutant(
        "keys-compared-by-hash",
        "Compaction compares hashes of keys: of two keys with one hash one is lost",
        (
            Edit(
                "protocol/record_keys.py",
                "                key = payload[at : at + key_bytes]\n",
                "                key = payload[at : at + 4] + bytes([sum(payload[at : at + key_bytes]) & 0xFF])\n",
            ),
        ),
        _LIVES,
    ),
    Mutant(
        "compaction-commits-what-was-aborted",
        "Compaction drops an abort's marker and keeps its records: they count from then on",
        (
            Edit(
                _COMPACTION,
                "return header.is_control or (header.is_transactional and not self._ends.is_committed(header))\n",
                "return header.is_control\n",
            ),
        ),
        _LIVES,
        "KAFKA-13727",
    ),
    Mutant(
        "compaction-passes-open-transactions",
        "Compaction does not stop before a transaction that is still open",
        (
            Edit(
                _COMPACTION,
                "        limit = self._ends.first_undecided\n",
                "        limit = None\n",
            ),
        ),
        _LIVES,
    ),
    Mutant(
        "swap-whose-name-is-not-durable",
        "The old segments are removed before the name of the one that stands for them is synced",
        (
            Edit(
                _SWAPPING,
                "    disk.sync_folder(folder)  # before anything goes",
                "    disk.list(folder)  # before anything goes",
            ),
        ),
        Test(
            "tests/partition_log/test_compaction_crashes.py::test_names_of_a_replacement_may_reach_the_disk_in_any_order"
        ),
    ),
    Mutant(
        "cleaned-segment-not-synced",
        "The segment that stands for others is put in their place before its bytes are durable",
        (
            Edit(
                _SWAPPING,
                "        unsynced.sync(path)\n",
                "        unsynced.forget(path)\n",
            ),
        ),
        _CLEANING_CRASHES,
    ),
    Mutant(
        "swap-forgotten-at-the-start",
        "A replacement that a crash came between is not finished: the old segments are read beside the new one",
        (
            Edit(
                _SWAPPING,
                "        remove_state_snapshots(disk, folder)\n        _finish(disk, folder, swap)\n",
                '        disk.remove(f"{folder}/{swap.text}")\n',
            ),
        ),
        _CLEANING_CRASHES,
    ),
    Mutant(
        "snapshot-outlives-cleaning",
        "An older snapshot is used for a log that was cleaned meanwhile",
        (
            Edit(
                _SWAPPING,
                "        if remove_state_snapshots(disk, self.folder):\n            disk.sync_folder(self.folder)\n",
                "",
            ),
        ),
        _LIVES,
    ),
    Mutant(
        "damaged-snapshot-believed",
        "A snapshot with a flipped bit is read as it is",
        (
            Edit(
                "partition_log/log/state_snapshots.py",
                "            if checksum != wanted or len(data) != length + _PIECE.size:\n",
                "            if len(data) != length + _PIECE.size:\n",
            ),
        ),
        Test("tests/partition_log/test_state_snapshots.py::test_other_bytes_anywhere_are_noticed"),
    ),
    Mutant(
        "believes-the-page-cache",
        "Unsynced writes of a killed process are relied on, and lost when the machine stops",
        (Edit("partition_log/store/recovery.py", "            last.make_durable(self._disk)\n", "            pass\n"),),
        Test(f"{_CRASH_FILE}::test_a_process_is_killed_and_its_machine_stops_while_the_next_one_starts"),
    ),
    Mutant(
        "believes-the-page-cache-of-a-full-disk",
        "The same after a start on a disk that was too full for a sync",
        (Edit("partition_log/wal/wal_segment.py", "            self.last.make_durable(disk)\n", "            pass\n"),),
        Test(f"{_CRASH_FILE}::test_so_does_one_that_starts_on_a_disk_too_full_for_a_write_and_gets_room_later"),
    ),
    Mutant(
        "syncs-what-a-failed-sync-forgot",
        "Bytes of a failed sync are synced but not written again: the kernel regards their pages as clean",
        (
            Edit(
                "partition_log/wal/wal_segment.py", "            disk.write_at(handle, self.position, self.data)\n", ""
            ),
        ),
        Test(f"{_CRASH_FILE}::test_a_process_is_killed_and_its_machine_stops_while_the_next_one_starts"),
    ),
    Mutant(
        "uses-a-segment-half-made",
        "A write-ahead segment left incomplete by an earlier start is used as if it was complete",
        (
            Edit(
                "partition_log/wal/wal_segment.py",
                "            if self.spare is None or disk.size(handle) != self.size:\n",
                "            if disk.size(handle) != self.size:\n",
            ),
        ),
        Test(f"{_CRASH_FILE}::test_a_process_is_killed_and_its_machine_stops_while_the_next_one_starts"),
    ),
)
