"""`python -m interop.compare --kafka HOST:PORT --muster HOST:PORT`: both with `group.initial.rebalance.delay.ms=0`.

Exits 1 for a difference that is not in `MEANT`.
"""

import argparse
import fnmatch
import sys
import uuid
from collections.abc import Iterable, Mapping

from interop.compare.pair import Pair, Server
from interop.compare.stories import STORIES

MEANT: Mapping[str, str] = {
    "*: *responses?0?.partitions?*?.high_watermark: Kafka -1,*": "an offset out of range comes with the watermarks",
    "*: *responses?0?.partitions?*?.last_stable_offset: Kafka -1,*": "as above",
    "*: *responses?0?.partitions?*?.log_start_offset: Kafka -1,*": "as above",
    "an operation that is none: responses?0?.error_code: *": "Kafka fails to think of it",
}
"""Pattern of `label: difference`, and why it is so."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.compare", description=__doc__)
    parser.add_argument("--kafka", required=True, metavar="HOST:PORT", help="Apache Kafka")
    parser.add_argument("--muster", required=True, metavar="HOST:PORT", help="musterd's Kafka listener")
    given = parser.parse_args()
    kafka, muster = Server(given.kafka), Server(given.muster)
    unexpected = 0
    for story in STORIES:
        pair = Pair(kafka, muster)
        story(pair, f"compare-{uuid.uuid4().hex[:8]}")
        found = list(unmeant(pair.differences))
        unexpected += len(found)
        print(f"{story.__name__.replace('_', ' ')}: {pair.asked} answers compared, {len(found)} differ")
        for sentence, versions in found:
            print(f"  {sentence} (in {_ranges(versions)})")
    return 1 if unexpected else 0


def unmeant(differences: Mapping[tuple[str, str], list[int]]) -> Iterable[tuple[str, list[int]]]:
    """Yield the differences that no pattern explains."""
    for (label, difference), versions in differences.items():
        sentence = f"{label}: {difference}"
        if not any(fnmatch.fnmatchcase(sentence, pattern) for pattern in MEANT):
            yield sentence, versions


def _ranges(versions: Iterable[int]) -> str:
    return ", ".join(f"v{version}" for version in sorted(set(versions)))


if __name__ == "__main__":
    sys.exit(main())
