"""Checks each answer that a test gets against the OpenAPI document, field by field."""

import re
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator

from coordinator.http.app import DOCUMENT, make_app
from protocol.messages import Message


async def _nobody(message: Message) -> Message:
    raise AssertionError(message)


@cache
def described() -> dict[str, Any]:
    """Return the document, in which an object has no field that is not described."""
    found: dict[str, Any] = _strict(make_app(_nobody)[DOCUMENT]())
    return found


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    tightened = {name: _strict(value) for name, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        tightened.setdefault("additionalProperties", False)
    return tightened


def check_answer(method: str, path: str, status: int, media: str, body: Any) -> None:
    """Assert that the document describes this answer of the path."""
    operation = _operation(method, urlsplit(path).path)
    if operation is None:
        assert status in (404, 405), f"{path} is not documented"
        return
    responses = operation["responses"]
    assert str(status) in responses, f"{method} {path}: {status} is not documented"
    content = responses[str(status)]["content"]
    assert media in content, f"{method} {path}: {media} is not documented for {status}"
    schema = {**content[media]["schema"], "components": described()["components"]}
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(body)]
    assert not errors, f"{method} {path}: {errors}"


def _operation(method: str, path: str) -> Any:
    for template, methods in described()["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            return methods.get(method.lower())
    return None
