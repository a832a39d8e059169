"""The hard knocks of ``make soak``, shortened and by the same code: a real server, websocket visitors, one kill."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.soak import fuzz, hard
from tests.soak.client import Session
from tests.soak.load import MODEL, run
from tests.soak.server import Server
from tests.unit.server.test_health import free_port

pytestmark = pytest.mark.timeout(900)  # servers start in seconds, on a busy machine in a minute
SECRET = "Marys diagnosis"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A demo server, with its log and its health port."""
    cache = tmp_path_factory.mktemp("soak") / "cache"
    settings: dict[str, Any] = {
        "HEADLENS_PROFILE": "demo",
        "HEADLENS_LOG": str(cache / "log.jsonl"),
        "HEADLENS_HEALTH_PORT": str(free_port()),
        "HF_HUB_OFFLINE": "1",
    }
    started = Server(cache, **settings).start()
    yield started
    started.kill()


def test_visitors_who_switch_at_once_each_see_their_own_right_numbers(server: Server) -> None:
    load = asyncio.run(run(server, 6, 8, 0.5, ("",), 1, method="magnitude"))
    assert load.wrong == []
    assert load.lost == []
    assert load.answers >= 6
    assert server.tracebacks() == 0


def test_broken_links_leave_a_server_that_answers(server: Server) -> None:
    found = fuzz.visits(server, 16, seed=2)
    assert found.wrong == []


def test_the_demo_refuses_a_model_in_the_link_and_says_what_it_offers(server: Server) -> None:
    async def visit(model: str) -> str:
        page = await Session(server.url, "health", {"model": model}).open()
        try:
            await page.until(lambda page: page.finished > 0)
            await page.close()
            page = await Session(server.url, "", {"model": model}).open()
            await page.until(lambda page: "dropped" in page.texts())
            return page.texts()
        finally:
            await page.close()

    assert "this server opens no folders" in asyncio.run(visit("/etc")).replace("\\", "")
    assert "does not offer the model" in asyncio.run(visit(SECRET)).replace("\\", "")


def test_health_and_log_say_how_the_server_is_and_nothing_of_its_visitors(server: Server) -> None:
    with urllib.request.urlopen(
        f"http://127.0.0.1:{server.environment['HEADLENS_HEALTH_PORT']}/", timeout=30
    ) as answer:
        text = answer.read().decode()
    found = json.loads(text)
    assert (found["status"], found["profile"]) == ("ok", "demo")
    assert MODEL in [held["name"] for held in found["models"]]
    log = Path(server.environment["HEADLENS_LOG"]).read_text()
    events = [json.loads(line) for line in log.splitlines()]
    assert {"server", "model_opened"} <= {event["event"] for event in events}
    assert SECRET not in text + log


def swept(store: Path) -> int:
    """Layers of a sweep in the store: of all entries they alone have an array of that name."""
    return sum(b'"effect"' in path.read_bytes() for path in store.glob("??/*"))


def test_a_server_killed_in_mid_sweep_goes_on_from_what_it_had(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    server = Server(cache).start()

    async def begin() -> None:
        page = await Session(server.url, "", {"model": MODEL}).open()
        try:
            await page.until(lambda page: swept(cache / "store") >= 1, hard.SETTLED)
        finally:
            server.kill()
            await page.close()

    asyncio.run(begin())
    sound, bad = hard.damaged(cache / "store")
    assert (sound >= 1, bad) == (True, 0)
    rows, cached = hard.scores(cache, tmp_path / "scores.csv")
    assert cached >= 1
    right, _ = hard.scores(tmp_path / "other", tmp_path / "right.csv")
    assert rows == right
