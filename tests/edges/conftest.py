"""Fixtures that tests with real processes share."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_muster.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session: it takes ten seconds to start. Whoever uses it carries `xdist_group("spark")`."""
    session = local_session("tests")
    yield session
    session.stop()
