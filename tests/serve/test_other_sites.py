"""Pages of other sites may not make a browser change the server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from conftest import Running

HOST = {"host": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:1", **HOST}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://127.0.0.1:1", **HOST}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:2", **HOST}, 403),
        ({"origin": "http://evil.example", **HOST}, 403),
        ({"origin": "null", **HOST}, 403),
    ],
)
@pytest.mark.parametrize("path", ["repository/models/scores/unload", "trace/setting", "logging"])
def test_changes(server: Running, path: str, headers: Mapping[str, str], status: int) -> None:
    body = b'{"parameters": {}}' if "repository" in path else b"{}"
    got, _, answer = server.http("POST", f"/v2/{path}", body, headers, control=True)
    assert got == status, answer
    assert (server.service.unloaded != []) == (status == 200 and "repository" in path)


def test_what_changes_nothing_is_answered(server: Running) -> None:
    got, _, _ = server.http(
        "POST", "/v2/repository/index", b"", {"sec-fetch-site": "cross-site"}, control=True
    )
    assert got == 200
