"""The build of this process: pure Python, or with the hot path compiled; and the interpreter it runs on.

The module is one of those that are compiled: it knows by its own file.
"""

import platform

from coordinator import __version__


def build() -> str:
    """Return `compiled` if the hot path is, else `pure`."""
    return "pure" if __file__.endswith((".py", ".pyc")) else "compiled"


def version() -> str:
    """Return what `musterd --version` prints."""
    return f"musterd {__version__} ({build()}, {interpreter()})"


def interpreter() -> str:
    """Return the interpreter's name and version."""
    return f"{platform.python_implementation()} {platform.python_version()}"
