"""`python -m muster.cli`."""

from muster.cli import main

main()
