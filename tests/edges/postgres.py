"""A PostgreSQL server of a test's own, of the programs that are on the machine."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """Return the folder of a server's programs, such as those of Debian's package; None where there is none."""
    on_the_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return Path(on_the_path).resolve().parent if on_the_path else next(iter(folders), None)


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server without a port; the text by which clients connect."""
    bin_folder = programs()
    assert bin_folder is not None
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root

    def run(program: str, *arguments: str) -> None:
        command = [str(bin_folder / program), "-D", str(folder / "data"), *arguments]
        with (folder / "log").open("w+") as log:  # a pipe would be inherited by the server, and never end
            ended = subprocess.run(command, check=False, user=user, cwd=folder, stdout=log, stderr=log)
            log.seek(0)
            assert ended.returncode == 0, log.read()

    with tempfile.TemporaryDirectory(prefix="pg-") as made:  # a short path: sockets have no longer ones
        folder = Path(made)
        if user is not None:
            shutil.chown(folder, user)
        run("initdb", "--auth=trust", "--username=tests", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-w", "-t", "120", "-o", settings, "start")
        try:
            yield f"host={folder} user=tests dbname=postgres"
        finally:
            run("pg_ctl", "-w", "-m", "fast", "stop")
