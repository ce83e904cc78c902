"""Memory of a megabyte's request is not returned to the system before the next one."""

import platform
import subprocess
import sys

import pytest

from coordinator.io.allocator import keep_large_buffers

_FAULTS = f"""
import resource
from {keep_large_buffers.__module__} import {keep_large_buffers.__name__}
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
if KEEPS:
    {keep_large_buffers.__name__}()
bytearray(8 << 20)
before = faults()
for _ in range(10):
    bytearray(b"x") * (8 << 20)
print(faults() - before)
"""


def faults(*, keeps: bool) -> int:
    """Count the page faults of ten buffers of 8 MiB (2,048 pages each), one after the other."""
    source = _FAULTS.replace("KEEPS", str(keeps))
    return int(subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are left as they are")
def test_a_large_buffer_is_taken_again_without_a_page_of_it_being_made_anew() -> None:
    assert faults(keeps=True) * 4 < faults(keeps=False)
