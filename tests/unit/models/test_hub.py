"""The hub, played by a small server on this machine: what is asked for, and how quickly a silent one is given up."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headlens.errors import ModelError
from headlens.models import catalogue, hub
from headlens.models.loading import load

Save = Callable[..., Path]
SHA = "a" * 40


class Hub:
    """Repositories as dictionaries of files, and the requests that were made."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []

    def handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path = self.path.split("?")[0]
                fake.asked.append(path)
                status, body, headers = fake.answer(path)
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

        return Handler

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        for repo, files in self.repositories.items():
            if path.startswith((f"/api/models/{repo}/tree/",)):
                rows = [{"type": "file", "path": n, "size": len(b), "oid": "0"} for n, b in files.items()]
                return 200, json.dumps(rows).encode(), {}
            if path in (
                f"/api/models/{repo}",
                f"/api/models/{repo}/revision/main",
                f"/api/models/{repo}/revision/{SHA}",
            ):
                siblings = [{"rfilename": name, "size": len(body)} for name, body in files.items()]
                info = {"id": repo, "sha": SHA, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
                return 200, json.dumps(info).encode(), {"Content-Type": "application/json"}
            for revision in ("main", SHA):
                prefix = f"/{repo}/resolve/{revision}/"
                if path.startswith(prefix) and path.removeprefix(prefix) in files:
                    body = files[path.removeprefix(prefix)]
                    return 200, body, {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": SHA}
        return (200, b"", {}) if path in ("", "/") else (404, b"", {"X-Error-Code": "RepoNotFound"})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    fake = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), fake.handler())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield fake
    server.shutdown()
    server.server_close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server that takes a connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def cache_by_hand(repo: str, folder: Path) -> Path:
    """Put a folder where huggingface_hub would have put a download."""
    base = hub.hub_cache() / f"models--{repo.replace('/', '--')}"
    (base / "refs").mkdir(parents=True)
    (base / "refs" / "main").write_text(SHA)
    (base / "snapshots").mkdir()
    return folder.rename(base / "snapshots" / SHA)


@pytest.mark.parametrize("name", ["gpt2", "facebook/bart-base", "a", "Helsinki-NLP/opus-mt-en-de", "x_y.z/1"])
def test_possible_ids(name: str) -> None:
    assert hub.is_repo_id(name)


@pytest.mark.parametrize("name", ["", "a b", "a/b/c", "/a", "a/", "../a", "a--b", "ä", "a:b", "x" * 97, "a\n"])
def test_impossible_ids_never_reach_the_network(name: str, fake: Hub) -> None:
    assert not hub.is_repo_id(name)
    with pytest.raises(ModelError, match="unknown model"):
        hub.resolve(name)
    assert fake.asked == []


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "h"))
    assert hub.hub_cache() == tmp_path / "h" / "hub"
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert hub.hub_cache() == tmp_path / "x" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "c"))
    assert hub.hub_cache() == tmp_path / "c"


def test_cached_model_needs_no_network(save: Save, fake: Hub) -> None:
    folder = cache_by_hand("openai-community/gpt2", save("gpt2"))
    entry = catalogue.find("gpt2")
    assert entry is not None
    assert entry.available
    assert "gpt2" in catalogue.suggest("x")
    for name in ("gpt2", "openai-community/gpt2"):
        loaded = load(name)
        assert (loaded.source, loaded.path, loaded.title) == ("hub", folder, "GPT-2 small")
    assert fake.asked == []


def test_half_a_download_does_not_count(save: Save) -> None:
    folder = cache_by_hand("some/model", save("gpt2"))
    assert hub.cached_snapshot("some/model") == folder
    (folder / "model.safetensors").unlink()
    assert hub.cached_snapshot("some/model") is None


def test_offline_switch_answers_at_once(monkeypatch: pytest.MonkeyPatch, fake: Hub) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=r"'some/model'.*HF_HUB_OFFLINE is set.*Available without a network"):
        load("some/model")
    assert fake.asked == []


def test_silent_network_is_given_up_within_five_seconds(silent: None) -> None:
    start = time.perf_counter()
    with pytest.raises(ModelError, match=r"'gpt2' on this machine and there is no network.*Available"):
        load("gpt2")
    assert 2 < time.perf_counter() - start < 5


def test_slow_name_lookup_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: object, **kwargs: object) -> None:
        time.sleep(2)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    start = time.perf_counter()
    assert not hub.reachable(timeout=0.3)
    assert time.perf_counter() - start < 1.5


def test_refused_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert not hub.reachable()


def test_proxy_is_used(monkeypatch: pytest.MonkeyPatch, fake: Hub) -> None:
    monkeypatch.setenv("http_proxy", hub.endpoint())
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid/")
    fake.answer = lambda path: (200, b"", {})  # type: ignore[method-assign]
    assert hub.reachable()
    assert fake.asked == ["http://hub.invalid"]


def test_download_takes_only_what_is_needed(save: Save, fake: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    files = files_of(save("gpt2"))
    extra = {"pytorch_model.bin": b"x" * 99, "README.md": b"x", "onnx/model.safetensors": b"x", "run.py": b"x"}
    fake.repositories["some/model"] = {**files, **extra}
    capfd.readouterr()
    loaded = load("some/model")
    assert capfd.readouterr() == ("", "")
    assert {path.name for path in loaded.path.iterdir()} == set(files)
    assert not any(name in path for path in fake.asked for name in extra)
    assert loaded.tokenizer is not None
    asked = len(fake.asked)
    assert load("some/model").path == loaded.path
    assert len(fake.asked) == asked, "the second time nothing is asked"


def test_download_refused_before_weights(save: Save, fake: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    good = files_of(save("gpt2"))
    pickle = {name: body for name, body in good.items() if name != "model.safetensors"} | {"pytorch_model.bin": b"x"}
    own = json.dumps({"model_type": "own", "auto_map": {"AutoModel": "own.M"}}).encode()
    fake.repositories = {
        "some/pickle": pickle,
        "some/code": {**good, "config.json": own},
        "some/dataset": {"data.csv": b"x"},
    }
    for name, message in [
        ("some/pickle", "no safetensors"),
        ("some/code", "auto_map"),
        ("some/dataset", "no config.json"),
        ("some/nothing", "the hub has no model 'some/nothing'"),
    ]:
        with pytest.raises(ModelError, match=message):
            load(name)
    monkeypatch.setattr("headlens.models.sizes.available_bytes", lambda device="cpu": 10)
    fake.repositories["some/big"] = good
    with pytest.raises(ModelError, match="some/big needs about"):
        load("some/big")
    assert not any("model.safetensors" in path for path in fake.asked)


def test_damaged_download_is_told(save: Save, fake: Hub) -> None:
    files = files_of(save("gpt2"))
    fake.repositories["some/model"] = {**files, "config.json": b"{"}
    with pytest.raises(ModelError, match="JSON"):
        load("some/model")
