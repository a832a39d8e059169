"""Broken links and broken files by the thousand, from a seed: what a visitor's browser or a crawler may send."""

from __future__ import annotations

import asyncio
import random
import string
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tests.soak.client import PageError, Session
from tests.soak.hard import Knocks
from tests.soak.server import Server

PAGES = ("", "attention", "switchboard", "prune", "lab", "claims", "interview", "health")
NAMES = ("model", "off", "method", "data", "ablation", "unit", "present")
GOOD = {
    "model": ("zoo-gpt2", "zoo-bert", "zoo-t5"),
    "off": ("L0H1", "L1,L2H0-H3", "none", "enc.L0H1", "L0G1"),
    "method": ("ablation", "gradient", "magnitude", "random"),
    "data": ("small-english", "stories"),
    "ablation": ("zero", "mean", "resample"),
    "unit": ("head", "kv"),
    "present": ("1", "5"),
}
ODD = (
    "",
    " ",
    "\0",
    "../../../../etc/passwd",
    "/etc",
    "/dev/zero",
    "/dev/tty",
    "/proc/self/environ",
    "/proc/self/mem",
    "~root",
    "~nobody-here/x",
    "file:///etc/passwd",
    "http://127.0.0.1:1/x",
    "\\\\server\\share",
    "C:\\Windows",
    "a/b/c/d",
    "-rf",
    "--help",
    "$(touch x)",
    "`id`",
    "%00",
    "%s%n{0}{x}",
    "<script>alert(1)</script>",
    "L999999999999999999999H0",
    "L0H0-H999999999",
    "L" * 5000,
    "L0H0," * 5000,
    "𝕃𝟘ℍ𝟙",
    "\u202eevil",
    "🙂" * 50,
    "nan",
    "-1",
    "1e309",
    "zoo-gpt2@99999999999999999999",
    "zoo-gpt2@-1",
    "zoo-gpt2@../..",
    "zoo-gpt2/../zoo-t5",
    "x.gguf",
    ".",
    "..",
    "/",
)


def links(count: int, seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Pages and queries, most of them broken."""
    chance = random.Random(f"links {seed}")
    for _ in range(count):
        names = chance.sample(NAMES, chance.randint(1, 4))
        query = {name: _value(name, chance) for name in names}
        if chance.random() < 0.15:
            query["".join(chance.choices(string.printable, k=6))] = chance.choice(ODD)
        yield chance.choice(PAGES), query


def _value(name: str, chance: random.Random) -> str:
    kind = chance.random()
    good = chance.choice(GOOD[name])
    if kind < 0.3:
        return good
    if kind < 0.6:
        return chance.choice(ODD)
    if kind < 0.85:  # one character of a good value is another
        place = chance.randrange(len(good))
        return good[:place] + chr(chance.choice((0, 10, 32, 44, 45, 47, 72, 76, 126, 233, 0x3042))) + good[place + 1 :]
    return "".join(chr(chance.randrange(1, 0x2FFF)) for _ in range(chance.randint(1, 60)))


def files(count: int, seed: int, samples: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents: good files with bytes changed, cut, doubled, under another ending, or nothing but noise."""
    chance = random.Random(f"files {seed}")
    endings = sorted(samples)
    for number in range(count):
        ending = chance.choice(endings)
        content = bytearray(samples[ending])
        kind = chance.randrange(6)
        if kind == 0 and content:
            for _ in range(chance.randint(1, 8)):
                content[chance.randrange(len(content))] = chance.randrange(256)
        elif kind == 1:
            del content[chance.randrange(len(content) + 1) :]
        elif kind == 2:
            place = chance.randrange(len(content) + 1)
            content[place:place] = chance.choice(
                (b"\0", b'"', b"\n\n", b"\xff\xfe", b",,,,", b"{" * 2000, b"\x1a", b"9" * 5000)
            )
        elif kind == 3:
            content = bytearray(chance.randbytes(chance.randint(0, 400)))
        elif kind == 4:
            content = bytearray(zlib.compress(bytes(content)))
        else:
            ending = chance.choice(endings)
        name = chance.choice(
            (
                f"file{number}{ending}",
                f"../../up{ending}",
                f"a/b{ending}",
                f"\0{ending}",
                ending,
                f"x{ending}.exe",
                "é" * 300 + ending,
            )
        )
        yield name, bytes(content)


def samples() -> dict[str, bytes]:
    """A small good file of each kind that can be uploaded."""
    import io

    import pandas as pd
    from PIL import Image

    table = pd.DataFrame({"text": ["The cat sat.", "A dog ran home."], "label": [0, 1]})
    packed, picture = io.BytesIO(), io.BytesIO()
    table.to_parquet(packed)
    Image.new("RGB", (9, 7), (10, 200, 30)).save(picture, "png")
    return {
        ".txt": b"The cat sat.\nA dog ran home.\n",
        ".jsonl": str(table.to_json(orient="records", lines=True)).encode(),
        ".csv": table.to_csv(index=False).encode(),
        ".tsv": table.to_csv(index=False, sep="\t").encode(),
        ".parquet": packed.getvalue(),
        ".png": picture.getvalue(),
        ".json": b'{"headlens": "interview progress", "schema": 1, "events": [{"type": "doubt", "answer": "x"}]}',
    }


def upload(name: str, content: bytes) -> tuple[str, Any]:
    """Gives a file to the reader that its page gives it to; the one line of a refusal, or what was read."""
    from headlens.errors import HeadlensError
    from headlens.interview.progress import MemoryLog, merge
    from headlens.ui.attention_picture import open_picture
    from headlens.ui.own_data import read_upload

    readers: dict[str, Callable[[], Any]] = {
        ".png": lambda: open_picture(name, content),
        ".json": lambda: merge(MemoryLog(), content),
    }
    read = next((read for ending, read in readers.items() if name.endswith(ending)), lambda: read_upload(name, content))
    try:
        return "read", read()
    except HeadlensError as error:
        return "refused", str(error)


def visits(server: Server, count: int, seed: int, *, together: int = 6, patience: float = 180) -> Knocks:
    """Opens ``count`` broken links on a real server: every page has to come to an end without an exception."""
    found = Knocks("fuzzed links on a server", times=count)
    waiting = list(links(count, seed))

    async def visitor() -> None:
        while waiting:
            page, query = waiting.pop()
            session = Session(server.url, page, query)
            try:
                await session.open()
                await session.until(lambda session: session.finished > 0, patience)
                session.check()
            except PageError as error:
                found.wrong.append(f"/{page} {str(query)[:200]}: {str(error)[:300]}")
            finally:
                await session.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(visitor() for _ in range(together)))

    asyncio.run(all_of_them())
    if not server.alive:
        found.wrong.append("the server is gone")
    found.hit = server.tracebacks()
    if found.hit:
        found.wrong.append(f"{found.hit} tracebacks in the server's log")
    return found
