"""What holds for every test."""

import os

from hypothesis import settings

# A shared machine stalls now and then: how long an example took says nothing about the code.
# A change is judged by its own faults: the properties take the same examples every time. `make explore` takes new ones.
settings.register_profile("muster", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("MUSTER_EXAMPLES", "muster"))
