"""`protocol` is a plain word: one that is not ours is named, not used."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_foreign_protocol_stops_the_import_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol" / "__init__.py").touch()
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", "import pyspark_muster"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "ImportError" in done.stderr
    assert str(tmp_path / "protocol" / "__init__.py") in done.stderr
