"""The health of a server: numbers that add up, an endpoint on loopback, nothing about users."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path

import psutil
import pytest

from headlens.errors import HeadlensError, StoreError
from headlens.server import health
from headlens.server.health import StoreSize, look, serve
from headlens.server.shared import Shared
from headlens.server.shelf import Held
from headlens.server.turns import Turns
from headlens.store import Store, unit_key


def one_look(tmp_path: Path) -> health.Health:
    switches, work = Turns(1, 5), Turns(2, 7)
    switches.join("a")
    switches.join("b")
    store = Store(tmp_path)
    store.put(unit_key(n=1), {})
    models = [Held("zoo-gpt2", 100, True), Held("/home/mary/model", 50, False)]
    return look(switches.standing(), work.standing(), 3, models, Shared(1000), StoreSize(store)())


def test_it_says_what_is_there(tmp_path: Path) -> None:
    found = one_look(tmp_path)
    assert (found.status, found.switches.at_work, found.switches.waiting, found.switches.places) == ("ok", 1, 1, 5)
    assert (found.work.slots, found.refused) == (2, 3)
    assert found.store_bytes == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert found.memory_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert [held.name for held in found.models] == ["zoo-gpt2", "other"]
    assert "mary" not in found.to_json()


def test_a_store_that_cannot_be_read_is_told() -> None:
    class Unreadable(Store):
        def size(self) -> int:
            raise StoreError("no permission")

    size = StoreSize(Unreadable(Path("/nowhere")))()
    found = look(Turns(1, 1).standing(), Turns(1, 1).standing(), 0, [], Shared(1), size)
    assert (found.status, found.store_bytes) == ("store", None)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_port_answers_with_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    port = free_port()
    monkeypatch.setenv(health.PORT_VARIABLE, str(port))
    server = serve(lambda: one_look(tmp_path))
    assert server is not None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            found = json.loads(answer.read())
    finally:
        server.shutdown()
        server.server_close()
    assert found["status"] == "ok"
    assert set(found["versions"]) == {"headlens", "streamlit", "torch", "transformers"}


@pytest.mark.parametrize("wanted", ["eighty", "99999999", "-1"])
def test_a_wrong_port_is_told(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setenv(health.PORT_VARIABLE, wanted)
    with pytest.raises(HeadlensError, match="HEADLENS_HEALTH_PORT"):
        serve(lambda: pytest.fail("asked"))


def test_without_the_variable_there_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(health.PORT_VARIABLE, raising=False)
    assert serve(lambda: pytest.fail("asked")) is None
