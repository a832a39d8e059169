"""Hard knocks: killed servers, a full disk, damaged results, two servers on one store. Each is checked from outside."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.client import PageError, Session
from tests.soak.load import MODEL
from tests.soak.server import ROOT, Server

SETTLED = 240.0
"""Longest that a page may take on a busy machine."""


@dataclass
class Knocks:
    """What was done, how often, and what was wrong with it (one line each)."""

    name: str
    times: int = 0
    hit: int = 0
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def damaged(store: Path) -> tuple[int, int]:
    """Sound and damaged entries of a store, by a reading of the file format of our own."""
    sound = bad = 0
    for path in store.glob("??/*"):
        if re.fullmatch("[0-9a-f]{64}", path.name):
            raw = path.read_bytes()
            signed = b"HLSTORE1" + bytes.fromhex(path.name)
            good = raw[:40] == signed and raw[40:72] == hashlib.sha256(signed + raw[72:]).digest()
            sound, bad = sound + good, bad + (not good)
    return sound, bad


def scores(cache: Path, out: Path) -> tuple[list[dict[str, str]], int]:
    """The exact scores as the command line gives them from this cache, and how many units came from the store."""
    import json

    environment = {**os.environ, "HEADLENS_CACHE": str(cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "headlens", "importance", MODEL, "--method", "ablation", "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=ROOT, timeout=600)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return rows, int(json.loads(out.with_suffix(".json").read_text())["cached"])


async def visit(server: Server, work: Callable[[Session], Awaitable[Any]], page: str = "", **query: str) -> Any:
    visitor = await Session(server.url, page, {"model": MODEL, **query}).open()
    try:
        return await work(visitor)
    finally:
        await visitor.close()


async def sweep(page: Session) -> None:
    """The first page, until every head is measured."""
    await page.until(lambda page: page.metric() is not None and not page.busy(), SETTLED)
    page.check()


def full_disk(folder: Path) -> Knocks:
    """A sweep on a disk that is full, then with space again: one clear line, a server that answers, the right end."""
    found = Knocks("disk full", times=1)
    quiet, small = folder / "full-quiet", folder / "full-small"
    with _small_disk(small) as (cache, ballast):
        server = Server(cache, folder / "full.log", HEADLENS_DATA=str(folder / "full-data"))
        try:
            server.start()
            said = asyncio.run(visit(server, _sweep_until_refused))
            if "free space" not in said:
                found.wrong.append(f"no line that says what to do: {said[:200]}")
            ballast.unlink()
            if not server.alive:
                found.wrong.append("the server is gone")
            asyncio.run(visit(server, sweep))
        finally:
            server.kill()
        if damaged(cache / "store")[1]:
            found.wrong.append("damaged entries")
        mine, cached = scores(cache, folder / "full-mine.csv")
        right, _ = scores(quiet, folder / "full-right.csv")
        if mine != right or not cached:
            found.wrong.append(f"the scores differ from an undisturbed run, or none is stored ({cached})")
    return found


async def _sweep_until_refused(page: Session) -> str:
    await page.until(lambda page: "free space" in page.texts() or "cannot write" in page.texts(), SETTLED)
    number = await page.switch(["L0H0"])  # the page still answers
    await page.until(lambda page: page.grid().get("ack", 0) >= number, SETTLED)
    return page.texts()


@contextmanager
def _small_disk(place: Path) -> Iterator[tuple[Path, Path]]:
    """A disk of 1 MB with a file that fills it; needs the right to mount."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        ballast = place / "ballast"
        with ballast.open("wb") as file:
            for size in (65536, 4096):
                while True:
                    try:
                        os.write(file.fileno(), b"\0" * size)
                    except OSError:
                        break
        yield place, ballast
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


def can_mount() -> bool:
    """Whether this user may mount a small disk."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("mount") is not None


def corruption(files: int, folder: Path, seed: int) -> Knocks:
    """Random bytes of stored results are changed: noticed, computed again, the same numbers, healed files."""
    found = Knocks("store damaged at random bytes", times=files)
    cache = folder / "damaged"
    right, _ = scores(cache, folder / "damaged-right.csv")
    chance = random.Random(seed)
    entries = sorted(path for path in (cache / "store").glob("??/*"))
    for path in chance.sample(entries, min(files, len(entries))):
        raw = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, 5)):
            raw[chance.randrange(len(raw))] ^= chance.randint(1, 255)
        path.write_bytes(raw)
    found.times, found.hit = min(files, len(entries)), damaged(cache / "store")[1]
    server = Server(cache).start()
    try:
        asyncio.run(visit(server, sweep))
    finally:
        server.kill()
    mine, _ = scores(cache, folder / "damaged-mine.csv")
    if mine != right:
        found.wrong.append("the scores are not those from before the damage")
    if (bad := damaged(cache / "store")[1]) and found.hit:
        found.wrong.append(f"{bad} entries are still damaged")
    return found


def two_servers(folder: Path) -> Knocks:
    """Two servers do the same sweep on one store at the same time: both right, nothing damaged."""
    found = Knocks("two servers on one store", times=2)
    quiet, cache = folder / "two-quiet", folder / "two-shared"
    servers = [Server(cache).start() for _ in range(2)]

    async def both() -> None:
        await asyncio.gather(*(visit(server, sweep) for server in servers))

    try:
        asyncio.run(both())
    except PageError as error:
        found.wrong.append(str(error))
    finally:
        for server in servers:
            server.kill()
    sound, bad = damaged(cache / "store")
    mine, cached = scores(cache, folder / "two-mine.csv")
    right, _ = scores(quiet, folder / "two-right.csv")
    if bad or mine != right or not cached:
        found.wrong.append(f"{sound} sound and {bad} damaged entries; scores equal: {mine == right}; {cached} cached")
    return found
