"""`python -m interop.spark_nodes`: two Spark queries and two services over three musterd with `offsets.log=cluster`.
The node of their group is killed again and again (docs/cluster.md).

* `shared`: queries, a consumer of librdkafka's and one of ours are one group over 12 partitions. Every record must
  have been read by one of them; those that were read again are counted.
* `once`: the queries are a group, and write all that they read to another topic with one `TopicSink`. The services are
  a group over that topic, with `read_committed`. Each record must be there once, and a service must have read it.

With every third kill of a node a member is killed too, with all its processes, and comes back.
"""

import argparse
import sys
from pathlib import Path

from interop.spark_nodes.story import PARTS, Plan, run
from interop.verdict import add_keep, judged


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.spark_nodes", description="Spark over several musterd.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all without any")
    parser.add_argument("--kills", type=int, default=6, help="of the node that has the group, in each part")
    parser.add_argument("--per-second", type=int, default=200, help="records")
    add_keep(parser)
    given = parser.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    plan = Plan(tuple(given.parts) or tuple(PARTS), given.kills, given.per_second)

    def play(work: Path) -> list[str]:
        return run(work, plan)

    return judged(given.keep, play)


if __name__ == "__main__":
    sys.exit(main())
