"""Our plain package names in other people's folders."""

import subprocess
import sys
from pathlib import Path

import pytest

import muster
from membership.events import NodeAddress
from muster._installation import check_installation
from muster.net.bootstrap import parse_bootstrap


@pytest.mark.parametrize("name", ["protocol.py", "protocol/__init__.py"])
def test_a_file_that_shadows_protocol_is_named(tmp_path: Path, name: str) -> None:
    shadow = tmp_path / name
    shadow.parent.mkdir(exist_ok=True)
    shadow.write_text("x = 1\n")
    root = Path(muster.__file__).parent.parent
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]; import muster"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert (
        f"ImportError: muster needs its own package `protocol`, in {root / 'protocol'}, but {shadow} comes first"
        in (done.stderr)
    )


def test_an_installation_in_its_place_is_left_alone() -> None:
    check_installation(muster.__file__)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("one:1,two:2", (NodeAddress("one", 1), NodeAddress("two", 2))),
        (" one:1 , ", (NodeAddress("one", 1),)),
        ("one", (NodeAddress("one", 9390),)),
        ("[::1]:7", (NodeAddress("::1", 7),)),
    ],
)
def test_bootstrap_addresses(text: str, addresses: tuple[NodeAddress, ...]) -> None:
    assert parse_bootstrap(text).addresses == addresses


@pytest.mark.parametrize("text", ["", ",", "one:", "one:x", ":1", "one:0", "one:70000"])
def test_what_is_no_address_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is wanted"):
        parse_bootstrap(text)
