"""Runs the worlds one after the other, each on a disk or a network of its own, and says which promises were broken.

All of it happens in namespaces of its own (mounts, network, processes): whatever ends it, nothing is left behind.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

from bench.faults import Broken
from bench.faults.disks import DISK_WORLDS
from bench.faults.peers import PEER_WORLDS
from bench.processes import scratch

WORLDS = {**DISK_WORLDS, **PEER_WORLDS}
_TOOLS = ("unshare", "nsenter", "mount", "umount", "mkfs.ext4", "fsfreeze", "fstrim", "ip")
_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


def missing() -> str:
    """A sentence with what this machine lacks; empty if it lacks nothing."""
    if sys.platform != "linux":
        return "loop devices and namespaces are Linux's"
    if os.geteuid() != 0:
        return "loop devices and namespaces need root"
    if lacking := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"there is no {', '.join(lacking)} (util-linux, e2fsprogs, iproute2)"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices (modprobe loop)"
    if subprocess.run([*_NAMESPACES, "true"], capture_output=True, check=False).returncode:
        return "the system forbids namespaces of one's own, as containers do"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=", ".join(WORLDS))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # the namespaces have been made
    asked = parser.parse_args()
    chosen = asked.worlds or list(WORLDS)
    if unknown := [name for name in chosen if name not in WORLDS]:
        parser.error(f"there is no world {unknown[0]!r}; there are {', '.join(WORLDS)}")
    if why := missing():
        print(f"skipped: {why}")
        return 0
    if not asked.inside:
        # In our place: who kills this process kills all that is inside.
        os.execvp(_NAMESPACES[0], [*_NAMESPACES, sys.executable, "-m", "bench.faults", "--inside", *chosen])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return 1 if sum([not _holds(name) for name in chosen]) else 0


def _holds(name: str) -> bool:
    began = time.monotonic()
    with scratch() as folder:
        try:
            told = WORLDS[name](folder)
        except Broken as broken:
            told = f"BROKEN: {broken}"
        except Exception:  # noqa: BLE001 - told as what it is; the other worlds are tried
            told = f"BROKEN: the world itself failed\n{traceback.format_exc()}"
        if told.startswith("BROKEN") and (log := folder / "log").exists():
            told += "".join(f"\n    {line}" for line in log.read_text().splitlines()[-12:])
    print(f"{name:<10} {time.monotonic() - began:5.1f} s  {told}", flush=True)
    return not told.startswith("BROKEN")


if __name__ == "__main__":
    sys.exit(main())
