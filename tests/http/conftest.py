import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from coordinator.http.app import make_app
from tests.http.documented import check_answer
from tests.http.scripted import ScriptedCoordinator


class Browser:
    """Sends GET for a path as written, percent signs included; returns links without scheme and address."""

    def __init__(self, client: TestClient[Any, Any]) -> None:
        self._client = client
        self._origin = str(client.make_url("")).rstrip("/")

    async def request(self, method: str, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        address = URL(self._origin + path, encoded=True)
        async with self._client.session.request(method, address, headers=headers) as answer:
            return answer.status, (await answer.text()).replace(self._origin, ""), dict(answer.headers)

    async def get(self, path: str, status: int = 200) -> Any:
        got, text, headers = await self.request("GET", path)
        body = json.loads(text)
        kind = "problem+json" if "error_code" in body else "json"
        assert (got, headers["Content-Type"]) == (status, f"application/{kind}; charset=utf-8"), text
        check_answer("GET", path, got, f"application/{kind}", body)
        return body

    async def text(self, path: str, **headers: str) -> str:
        status, text, _ = await self.request("GET", path, **headers)
        assert status == 200
        return text


@pytest.fixture
def coordinator() -> ScriptedCoordinator:
    return ScriptedCoordinator()


@pytest.fixture
async def browser(coordinator: ScriptedCoordinator) -> AsyncIterator[Browser]:
    app = make_app(coordinator.ask, ask_timeout_s=0.05, most_series=8)
    async with TestClient(TestServer(app)) as client:
        yield Browser(client)
