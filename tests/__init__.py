"""Tests. A package, so that folders named like ours do not stand in for ours."""
