"""``make soak``: everything in docs/reliability.md, in one command; parts by name.

python -m tests.soak                         all of it, about half an hour
python -m tests.soak load --sessions 50 --seconds 300
python -m tests.soak kills --times 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.soak import fuzz, hard, kills
from tests.soak.hard import Knocks
from tests.soak.load import run
from tests.soak.server import Server

PARTS = ("load", "sweep", "save", "recovery", "disk", "damage", "two", "fuzz")
MOST_GROWTH = 0.05


def main() -> int:
    """Runs the parts; prints a table; 1 where anything was wrong."""
    logging.basicConfig(level=logging.ERROR)
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--think", type=float, default=4.0, help="mean pause after an answer, in seconds")
    parser.add_argument("--times", type=int, default=20, help="kills in all, shared out over sweep, save and recovery")
    parser.add_argument("--links", type=int, default=1000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the findings as JSON")
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="headlens-soak-") as name:
        for part in asked.parts or PARTS:
            start = time.monotonic()
            for row in WORK[part](asked, Path(name)):
                row["minutes"] = round((time.monotonic() - start) / 60, 1)
                found.append(row)
                print(line(row), flush=True)  # noqa: T201
                start = time.monotonic()
    machine = {
        "cores": os.cpu_count(),
        "load": [round(x, 1) for x in os.getloadavg()],
        "python": platform.python_version(),
    }
    print(f"\n{machine}")  # noqa: T201
    if asked.out is not None:
        asked.out.write_text(json.dumps({"machine": machine, "found": found}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["wrong"] for row in found))


def line(row: dict[str, Any]) -> str:
    """A row of the table, with what was wrong below it."""
    first = f"| {row['what']} | {row['done']} | {len(row['wrong'])} wrong | {row['notes']} | {row['minutes']} min |"
    return "\n".join([first, *(f"    WRONG: {each}" for each in row["wrong"][:10])])


def _row(found: Knocks) -> dict[str, Any]:
    return {"what": found.name, "done": found.times, "wrong": found.wrong, "notes": "; ".join(found.notes)}


def _load(asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    server = Server(folder / "load").start()
    try:
        load = asyncio.run(run(server, asked.sessions, asked.seconds, asked.think, ("",), asked.seed))
    finally:
        server.kill()
    wrong = [*load.wrong, *load.lost]
    if load.growth > MOST_GROWTH:
        wrong.append(f"memory grew by {load.growth:.1%} over the second half")
    if (tracebacks := server.tracebacks()) > 0:
        wrong.append(f"{tracebacks} tracebacks in the server's log")
    notes = (
        f"{load.answers} answers; click to answer p50 {load.percentile(0.5):.2f} s, p95 {load.percentile(0.95):.2f} s, "
        f"worst {load.percentile(1):.2f} s; memory {load.memory[-1][1] / 1e6:.0f} MB, second half {load.growth:+.1%}"
    )
    return [
        {
            "what": f"{load.sessions} sessions, {load.seconds:.0f} s",
            "done": load.answers,
            "wrong": wrong,
            "notes": notes,
        }
    ]


def _kills(kind: kills.Kind, share: Callable[[int], int]) -> Callable[[argparse.Namespace, Path], list[dict[str, Any]]]:
    """A third of the kills."""
    return lambda asked, folder: [_row(kills.kills(kind, max(1, share(asked.times)), folder, asked.seed))]


def _disk(_: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    if not hard.can_mount():
        return [{"what": "disk full", "done": 0, "wrong": [], "notes": "not run: this user may not mount a small disk"}]
    return [_row(hard.full_disk(folder))]


def _fuzz(asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    server = Server(folder / "fuzz", HF_HUB_OFFLINE="1").start()
    try:
        linked = fuzz.visits(server, asked.links, asked.seed)
    finally:
        server.kill()
    given = Knocks("fuzzed uploads", times=asked.files)
    for name, content in fuzz.files(asked.files, asked.seed, fuzz.samples()):
        try:
            how, said = fuzz.upload(name, content)
        except Exception as error:  # noqa: BLE001 - any other error is a finding
            given.wrong.append(f"{name!r}: {type(error).__name__}: {error}")
        else:
            given.hit += how == "refused"
            if how == "refused" and "\n" in said:
                given.wrong.append(f"{name!r}: more than one line")
    given.notes.append(f"{given.hit} refused in one line, {given.times - given.hit} read")
    return [_row(linked), _row(given)]


WORK: dict[str, Callable[[argparse.Namespace, Path], list[dict[str, Any]]]] = {
    "load": _load,
    "sweep": _kills(kills.SWEEP, lambda times: (times + 2) // 3),
    "save": _kills(kills.SAVE, lambda times: (times + 1) // 3),
    "recovery": _kills(kills.RECOVERY, lambda times: times // 3),
    "disk": _disk,
    "damage": lambda asked, folder: [_row(hard.corruption(10, folder, asked.seed))],
    "two": lambda _, folder: [_row(hard.two_servers(folder))],
    "fuzz": _fuzz,
}

if __name__ == "__main__":
    sys.exit(main())
