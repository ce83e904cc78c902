"""What holds for every test."""

from hypothesis import settings

# A shared machine stalls now and then: how long an example took says nothing about the code.
settings.register_profile("muster", deadline=None, print_blob=True)
settings.load_profile("muster")
