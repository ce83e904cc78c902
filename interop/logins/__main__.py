"""`python -m interop.logins`: clients log in at a musterd by each mechanism, over SASL_PLAINTEXT and SASL_SSL.

* `python -m interop.logins java go-franz --mechanism OAUTHBEARER`: some of it
* `python -m interop.logins --beside`: the same in front of an Apache Kafka 4.3.1, whose brokers know the users
* `python -m interop.logins --write`: and the table goes into docs/interop.md
"""

import argparse
import sys
import tempfile
from pathlib import Path

from interop.logins.guarded import MECHANISMS, PROTOCOLS
from interop.logins.playing import CLIENTS, Choice, run


def main() -> int:
    options = _options()
    choice = Choice(
        tuple(options.clients or CLIENTS),
        tuple(options.protocol or PROTOCOLS),
        tuple(options.mechanism or MECHANISMS),
        options.beside,
    )
    with tempfile.TemporaryDirectory(prefix="muster-interop-") as scratch:
        failed = run(choice, options.keep or Path(scratch), write=options.write)
    for one in failed:
        print(f"FAILED {one}")
    print(f"{len(failed)} failed" if failed else "all of it passed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.logins", description="Logins of other people's clients.")
    parser.add_argument("clients", nargs="*", help=f"of {', '.join(CLIENTS)}; all without any")
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS, help="may be given again; both without any")
    parser.add_argument("--mechanism", action="append", choices=MECHANISMS, help="may be given again; all without any")
    parser.add_argument("--beside", action="store_true", help="in front of an Apache Kafka that wants logins")
    parser.add_argument("--write", action="store_true", help="put the table into docs/interop.md")
    parser.add_argument("--keep", type=Path, help="a folder for what the servers and the programs leave and say")
    options = parser.parse_args()
    unknown = set(options.clients) - set(CLIENTS)
    if unknown:
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
