"""Many visitors at once: each switches heads of its own, and every number that is shown is compared with the answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.soak.client import Answer, PageError, Session
from tests.soak.server import Server

MODEL = "zoo-gpt2"
TOLERANCE = 1.01e-4
"""Pages show four decimals."""


@dataclass
class Load:
    """What was measured.

    Attributes:
        sessions: how many visitors.
        seconds: how long they switched.
        answers: switches that were answered.
        wrong: what was wrong, one line each.
        latencies: seconds from the click to the end of the run that shows its loss.
        memory: (second, resident bytes of the server).
        lost: sessions that failed, one line each.
        shown: what was switched off, and what the page said at the end of the run that heard of it.
    """

    sessions: int
    seconds: float
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    shown: list[tuple[tuple[str, ...], Answer]] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Latency in seconds below which that share of the answers lies."""
        return float(np.quantile(self.latencies, share)) if self.latencies else float("nan")

    @property
    def growth(self) -> float:
        """Share by which memory grew over the second half: the mean of its last fifth against that of its first."""
        half = [size for at, size in self.memory if at >= self.seconds / 2]
        fifth = max(1, len(half) // 5)
        return float(np.mean(half[-fifth:]) / np.mean(half[:fifth]) - 1) if half else float("nan")


def head_sets(count: int, seed: int) -> list[tuple[str, ...]]:
    """Different sets of one to six heads of the zoo's decoder (4 layers of 8)."""
    random_ = random.Random(seed)
    labels = [f"L{layer}H{head}" for layer in range(4) for head in range(8)]
    found: dict[tuple[str, ...], None] = {}
    while len(found) < count:
        found[tuple(sorted(random_.sample(labels, random_.randint(1, 6))))] = None
    return list(found)


def answers(sets: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], float]:
    """The loss with each set off on the live set, by transformers and a hook of our own: none of the app's code."""
    import torch
    from transformers import AutoModelForCausalLM

    from headlens.data.select import live_set
    from headlens.lens import open_model
    from headlens.models.catalogue import zoo_folder

    inputs = [example.inputs["input_ids"] for example in live_set(open_model(MODEL)).examples]
    model: Any = AutoModelForCausalLM.from_pretrained(zoo_folder(MODEL)).eval()
    width = model.config.n_embd // model.config.n_head
    off: dict[int, list[int]] = {}

    def silence(layer: int) -> Any:
        def hook(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            z = given[0].clone()
            for head in off.get(layer, ()):
                z[..., head * width : (head + 1) * width] = 0
            return (z, *given[1:])

        return hook

    for layer, block in enumerate(model.transformer.h):
        block.attn.c_proj.register_forward_pre_hook(silence(layer))
    found = {}
    for labels in sets:
        off.clear()
        for label in labels:
            layer, head = map(int, label[1:].split("H"))
            off.setdefault(layer, []).append(head)
        with torch.inference_mode():
            logits = [model(ids[None]).logits[0, :-1] for ids in inputs]
        targets = torch.cat([ids[1:] for ids in inputs])
        found[labels] = float(torch.nn.functional.cross_entropy(torch.cat(logits), targets))
    return found


async def run(
    server: Server, sessions: int, seconds: float, think: float, pages: tuple[str, ...], seed: int, **query: str
) -> Load:
    """Lets ``sessions`` visitors switch heads for ``seconds``, each pausing about ``think`` seconds after an answer."""
    sets = head_sets(max(200, round(sessions * seconds / max(0.5, think + 0.3))), seed)
    found = Load(sessions, seconds)
    visitors = await _all_in(server, sessions, pages, query)
    start = time.monotonic()
    shares = [sets[number::sessions] for number in range(sessions)]
    tasks = [
        asyncio.create_task(_visit(visitor, share, found, start + seconds, think, random.Random(f"{seed} {n}")))
        for n, (visitor, share) in enumerate(zip(visitors, shares, strict=True))
    ]
    while any(not task.done() for task in tasks):
        found.memory.append((time.monotonic() - start, server.memory()))
        await asyncio.sleep(0.5)
    await asyncio.gather(*(visitor.close() for visitor in visitors))
    _judge(found)
    return found


async def _all_in(server: Server, sessions: int, pages: tuple[str, ...], query: Mapping[str, str]) -> list[Session]:
    """Everybody opens the app at once, and waits for the first figures; the sweep goes on behind them."""
    visitors = [
        Session(server.url, pages[number % len(pages)], {"model": MODEL, **query}) for number in range(sessions)
    ]
    await asyncio.gather(*(visitor.open() for visitor in visitors))
    for visitor in visitors:
        await visitor.until(lambda page: page.metric() is not None and bool(page.grid()), 600)
    return visitors


async def _visit(
    page: Session,
    sets: list[tuple[str, ...]],
    found: Load,
    end: float,
    think: float,
    chance: random.Random,
) -> None:
    try:
        for off in sets * 50:
            await asyncio.sleep(chance.uniform(0.5, 1.5) * think)
            if time.monotonic() >= end:
                return
            sent = time.monotonic()
            number = await page.switch(list(off))
            await page.until(lambda page, n=number: page.answer.ack >= n and page.answer.loss is not None, 240)
            found.latencies.append(time.monotonic() - sent)
            found.shown.append((off, page.answer))
    except PageError as error:
        found.lost.append(" ".join(str(error).split())[:300])


def _judge(found: Load) -> None:
    """Compares every number that was shown with the answer."""
    found.answers = len(found.shown)
    known = answers(dict.fromkeys(off for off, _ in found.shown))
    for off, said in found.shown:
        if said.off != off:
            found.wrong.append(f"switched {off}, the page has {said.off}")
        elif said.loss is None or abs(said.loss - known[off]) > TOLERANCE:
            found.wrong.append(f"{off}: the page shows {said.loss}, right is {known[off]:.6f}")
