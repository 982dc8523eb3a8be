"""The parts of bench/peers on which its fairness rests: the client, and the arrivals."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PEERS = Path(__file__).parents[2] / "bench" / "peers"
REQUEST = (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", b"ab")


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"peers_{name}", PEERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[made.__name__] = made
    spec.loader.exec_module(made)
    return made


class Closing:
    """A server that answers with the number of its connection, and closes one after so many answers."""

    def __init__(self, answers: int) -> None:
        self.answers, self.connections, self.requests = answers, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        told = str(self.connections).encode()
        for _ in range(self.answers):
            try:
                await reader.readuntil(b"\r\n\r\nab")
            except asyncio.IncompleteReadError:
                break
            self.requests += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told))
        writer.close()


def asked(server: Closing, times: int) -> list[tuple[int, bytes]]:
    async def run() -> list[tuple[int, bytes]]:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        client = module("connections").HttpClient(listener.sockets[0].getsockname()[1])
        answers = []
        for _ in range(times):
            answers.append(tuple(await client.call(REQUEST)))
            await asyncio.sleep(0.01)
        client.close()
        listener.close()
        return answers

    return asyncio.run(asyncio.wait_for(run(), 20))


def test_a_connection_is_used_again() -> None:
    server = Closing(100)
    assert asked(server, 3) == [(200, b"1")] * 3


def test_after_a_server_closed_an_idle_connection_another_one_is_opened() -> None:
    server = Closing(1)
    assert asked(server, 3) == [(200, b"1"), (200, b"2"), (200, b"3")]
    assert server.requests == 3


def test_a_server_that_never_answers_is_an_error() -> None:
    with pytest.raises(OSError, match=r"closed|reset"):
        asked(Closing(0), 1)


def test_more_load_is_the_same_pattern_in_less_time() -> None:
    tenants = module("tenants")
    sla_s = dict.fromkeys(tenants.TENANTS, 0.1)
    slow = tenants.trace({"small": 20.0, "middle": 4.0, "large": 1.0}, 8.0, 1, sla_s)
    fast = tenants.trace({"small": 40.0, "middle": 8.0, "large": 2.0}, 4.0, 1, sla_s)
    assert [one.tenant for one in slow] == [one.tenant for one in fast]
    assert [one.arrival_s / 2 for one in slow] == pytest.approx([one.arrival_s for one in fast])
    alone = tenants.trace({"small": 20.0}, 8.0, 1, sla_s)
    assert [one.arrival_s for one in alone] == [one.arrival_s for one in slow if one.tenant == "small"]
    assert slow != tenants.trace({"small": 20.0, "middle": 4.0, "large": 1.0}, 8.0, 2, sla_s)


def test_a_comparison_that_was_interrupted_goes_on_with_whole_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PEERS))
    progress = module("progress")
    file = tmp_path / "progress.jsonl"
    begun = progress.Progress(file, {"seed": 1}, anew=False)
    assert begun.calibration is None
    begun.begin(progress.Calibration({"small": 1e-3}, 0.9, 2e-3))
    segment = progress.Segment("a", 0.3, 0, None, 1.0, (), 0.0, 0.5, 1e-3, 0.0, 0.0, "")
    begun.add([segment, segment])
    file.write_text(file.read_text() + '[{"round": 0, "utilisation": 0.6')
    for _ in range(2):
        again = progress.Progress(file, {"seed": 1}, anew=False)
        assert (again.calibration.capacity, again.cells, len(again.segments)) == (0.9, {(0, 0.3)}, 2)
    for wanted, anew in (({"seed": 2}, False), ({"seed": 1}, True)):
        other = progress.Progress(file, wanted, anew=anew)
        assert (other.calibration, other.segments) == (None, [])
