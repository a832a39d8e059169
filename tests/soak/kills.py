"""kill -9 of a server in mid-sweep, in mid-save and in mid-recovery, and what has to be true afterwards."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.soak.client import PageError, Session
from tests.soak.hard import SETTLED, Knocks, damaged, scores, sweep, visit
from tests.soak.load import MODEL
from tests.soak.server import Server

CUT = "L0H0,L1H3,L2H5"


async def _cut(page: Session) -> None:
    """The prune page: cuts the heads that are off out of the model."""
    await page.until(lambda page: "Cut these" in _buttons(page), SETTLED)
    await page.press("Cut these")
    await page.until(lambda page: "Look at the cut model" in _buttons(page), SETTLED)


async def _recover(page: Session) -> None:
    """Cuts, then trains the cut model."""
    await _cut(page)
    await page.until(lambda page: "Recover" in _buttons(page), SETTLED)
    await page.press("Recover")
    await page.until(lambda page: "Look at the recovered model" in _buttons(page), SETTLED)


def _buttons(page: Session) -> str:
    return "\n".join(button.label for button in page.elements("button"))


@dataclass(frozen=True)
class Kind:
    """What a server is killed in.

    Attributes:
        name: for people.
        page, query: where it is done.
        work: does it, until it is done.
        ready: until when the clock of the random moment does not run, or None: from the start of the work.
    """

    name: str
    page: str
    query: dict[str, str]
    work: Callable[[Session], Awaitable[None]]


SWEEP = Kind("sweep", "", {}, sweep)
SAVE = Kind("save", "prune", {"off": CUT}, _cut)
RECOVERY = Kind("recovery", "prune", {"off": CUT}, _recover)


def kills(kind: Kind, times: int, folder: Path, seed: int) -> Knocks:
    """Starts the work, kills the server at a random moment of it, starts it again; so ``times``; then to the end.

    Sound means: no damaged entry under its own name, none lost that was there before, no half-written model folder,
    and in the end the very numbers (and weights) of a run that was never disturbed.
    """
    found = Knocks(f"kill -9 in mid-{kind.name}")
    chance = random.Random(f"{seed} {kind.name}")
    quiet, knocked = folder / f"{kind.name}-quiet", folder / f"{kind.name}-killed"
    whole = _undisturbed(kind, quiet)
    kept = 0
    server = Server(knocked)
    for _ in range(times):
        server.start()
        try:
            done = asyncio.run(_until_killed(server, kind, chance.uniform(0.02, 0.8) * whole))
        finally:
            server.kill()
        found.times += 1
        found.hit += not done
        sound, bad = damaged(knocked / "store")
        if bad or sound < kept:
            found.wrong.append(f"after kill {found.times}: {sound} sound entries of {kept} before, {bad} damaged")
        kept = sound
        found.wrong.extend(_half_written(knocked))
        if done:  # the next kill is to find work again
            for name in ("store", "cuts", "recovery"):
                shutil.rmtree(knocked / name, ignore_errors=True)
            kept = 0
    server.start()
    try:
        asyncio.run(visit(server, kind.work, kind.page, **kind.query))
    except PageError as error:
        found.wrong.append(f"after all kills: {error}")
    finally:
        server.kill()
    found.wrong.extend(_different(kind, quiet, knocked))
    found.notes.append(f"{found.hit} of {found.times} kills came while it was at work (undisturbed {whole:.1f} s)")
    return found


def _undisturbed(kind: Kind, cache: Path) -> float:
    """Does the work once, in peace; its seconds from the moment that the page is open."""
    server = Server(cache).start()

    async def timed(page: Session) -> float:
        await page.until(lambda page: page.finished > 0 or page.busy(), SETTLED)
        start = time.monotonic()
        await kind.work(page)
        return time.monotonic() - start

    try:
        return asyncio.run(visit(server, timed, kind.page, **kind.query))
    finally:
        server.kill()


async def _until_killed(server: Server, kind: Kind, after: float) -> bool:
    """Kills the server so many seconds after the work has begun; whether the work was done before that."""
    visitor = await Session(server.url, kind.page, {"model": MODEL, **kind.query}).open()
    await visitor.until(lambda page: page.finished > 0 or page.busy(), SETTLED)
    work = asyncio.ensure_future(kind.work(visitor))
    try:
        await asyncio.wait_for(asyncio.shield(work), after)
        return True
    except TimeoutError:
        return False
    finally:
        server.kill()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await visitor.close()


def _half_written(cache: Path) -> Iterator[str]:
    """Model folders under their own name that are not whole: each is opened in a process of its own rules."""
    from headlens.errors import HeadlensError
    from headlens.models.loading import load

    for folder in (cache / "cuts").glob("*"):
        if folder.is_dir() and not folder.name.startswith(".") and "cut-" in folder.name and folder.suffix == "":
            try:
                load(str(folder))
            except HeadlensError as error:
                yield f"half-written model: {error}"


def _different(kind: Kind, quiet: Path, knocked: Path) -> Iterator[str]:
    """What the killed server's numbers and weights have other than the undisturbed one's."""
    if kind is SWEEP:
        right, _ = scores(quiet, quiet / "scores.csv")
        mine, cached = scores(knocked, knocked / "scores.csv")
        if mine != right:
            yield "the scores are not those of an undisturbed run"
        if not cached:
            yield "nothing came from the store"
        return
    weights = sorted((quiet / "cuts").glob("*/*.safetensors"))
    if not weights:
        yield "the undisturbed run wrote no weights"
    for path in weights:
        other = knocked / path.relative_to(quiet)
        if not other.is_file() or other.read_bytes() != path.read_bytes():
            yield f"{path.relative_to(quiet)} is not, to the bit, what an undisturbed run writes"
