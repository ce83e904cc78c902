"""The OpenAPI 3.1 document of the HTTP interface, made from the table of routes. Pure."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from coordinator.http.routing.route import HttpRoute, Schema
from coordinator.http.shapes import Json

PROBLEM_MEDIA: Final = "application/problem+json"
"""Content type of errors (RFC 9457)."""
HTML: Final = "text/html"
_OF_EVERY_PATH: Final = (400, 403, 421, 500, 503, 504)
_OF_LOGINS: Final = (401, 429)
_REF: Final = "#/components/schemas/{name}"
_NAME: Final = re.compile(r"{(\w+)}")
_PATH_NAMES: Final[dict[str, tuple[Json, str]]] = {
    "partition": ({"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "Number of the partition."),
    "broker": ({"type": "string", "minLength": 1}, "Number of the node."),
    "node": ({"type": "integer", "minimum": 0}, "Number of the node (`node.id`) that is asked."),
    "cluster": ({"type": "string", "minLength": 1}, "Id of the cluster; `/v3/clusters` has it."),
    "group": ({"type": "string", "minLength": 1}, "Id of the group."),
    "topic": ({"type": "string", "minLength": 1}, "Name of the topic."),
    "consumer": ({"type": "string", "minLength": 1}, "Id of the member."),
    "key": ({"type": "string", "minLength": 1}, "Key of the partition, `SOURCE:TOPIC:PARTITION`."),
    "id": ({"type": "string", "minLength": 1}, "Id of the change, `GROUP:NUMBER`."),
}

PROBLEM: Final[Json] = {
    "title": "Problem",
    "type": "object",
    "description": "An error (RFC 9457), with Confluent's error code and message beside it.",
    "required": ["type", "title", "status", "detail", "error_code", "message"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error_code": {"type": "integer"},
        "message": {"type": "string"},
        "err": {"type": "integer"},
        "msg": {"type": "string"},
    },
}


def document(routes: Iterable[HttpRoute], version: str, *, wants_logins: bool = False) -> Json:
    """Return the document of these routes."""
    components = _Components()
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components, wants_logins)
    found: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": version,
            "description": "Groups, their members, offsets and lag; problems and what helps.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components.all()},
    }
    if wants_logins:
        schemes: Json = {name: {"type": "http", "scheme": name} for name in ("basic", "bearer")}
        about = "The last part of the name is the port of the URL; over TLS the name begins with __Host-."
        schemes["session"] = {"type": "apiKey", "in": "cookie", "name": "muster_session_9391", "description": about}
        found["components"]["securitySchemes"] = schemes
        found["security"] = [{name: []} for name in schemes]
    decoded: Json = msgspec.json.decode(msgspec.json.encode(found))  # defaults of Structs are tuples
    return decoded


def _operation(route: HttpRoute, components: "_Components", wants_logins: bool) -> Json:
    found: Json = {
        "operationId": operation_id(route),
        "summary": route.about,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, components, wants_logins),
    }
    if route.body is not None:
        content = {route.body_media: {"schema": components.hoisted(route.body)}}
        found["requestBody"] = {"required": True, "content": content}
    if route.is_open:
        found["security"] = []
    return found


def operation_id(route: HttpRoute) -> str:
    """Return the name of the operation: method and path in words."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", route.path) if word]
    return "-".join((route.method.lower(), *(words or ["index"])))


def _path_parameters(route: HttpRoute) -> list[Json]:
    found = []
    for name in _NAME.findall(route.path):
        schema, about = _PATH_NAMES.get(name, ({"type": "string", "minLength": 1}, ""))
        found.append({"name": name, "in": "path", "required": True, "description": about, "schema": schema})
    return found


def _query_parameters(route: HttpRoute) -> list[Json]:
    return [
        {"name": one.name, "in": "query", "description": one.about, "schema": one.schema} for one in route.parameters
    ]


def _responses(route: HttpRoute, components: "_Components", wants_logins: bool) -> Json:
    content = {route.media: {"schema": components.hoisted(route.answer)}}
    content |= {media: {"schema": {"type": "string"}} for media in route.more_media}
    found: Json = {str(route.status): {"description": HTTPStatus(route.status).phrase, "content": content}}
    statuses = {*_OF_EVERY_PATH, *route.refusals, *(_OF_LOGINS if wants_logins and not route.is_open else ())}
    problem = {PROBLEM_MEDIA: {"schema": components.hoisted(PROBLEM)}}
    if HTML in (route.media, *route.more_media):
        problem[HTML] = {"schema": {"type": "string"}}
    for status in sorted(statuses):
        found[str(status)] = {"description": HTTPStatus(status).phrase, "content": dict(problem)}
    for status, schema in route.also.items():
        described = found.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": {}})
        described["content"][route.media] = {"schema": components.hoisted(schema)}
    return found


class _Components:
    """Named schemas, referred to by `$ref`."""

    def __init__(self) -> None:
        self._named: dict[str, Json] = {}
        self._structs: dict[str, type] = {}

    def hoisted(self, schema: Schema) -> Json:
        """Return the schema with references in place of schemas that have a title or are Structs."""
        if isinstance(schema, type):
            self._structs[schema.__name__] = schema
            return {"$ref": _REF.format(name=schema.__name__)}
        body = {name: self._value(value) for name, value in schema.items()}
        name = schema.get("title")
        if name is None:
            return body
        self._named[name] = body
        return {"$ref": _REF.format(name=name)}

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict) and value and all(isinstance(one, (dict, type)) for one in value.values()):
            # The properties of an object: schemas by name, and the name may be `title`.
            return {name: self._value(one) for name, one in value.items()}
        if isinstance(value, (dict, type)):
            return self.hoisted(value)
        return [self._value(one) for one in value] if isinstance(value, list) else value

    def all(self) -> Json:
        """Return all schemas by name."""
        _schemas, found = msgspec.json.schema_components(list(self._structs.values()), ref_template=_REF)
        return dict(sorted({**found, **self._named}.items()))
