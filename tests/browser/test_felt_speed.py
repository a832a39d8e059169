"""What waiting feels like with the default model: measured in the browser and printed at the end of the run.

Times depend on the machine and on what else it does, so they are reported, not judged; the numbers shown are judged.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import ROOT, SLOW, App, AppServer

pytestmark = pytest.mark.browser

MODEL = "smollm2-135m"
WATCH_LOSS = """() => {
    window.changes = [];
    const loss = () => document.querySelector('[data-testid=stMetricValue]')?.textContent;
    let last = loss();
    new MutationObserver(() => {
        const now = loss();
        if (now && now !== last) { last = now; window.changes.push(performance.now()); }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
    addEventListener('pointerdown', () => (window.pressed = performance.now()), true);
}"""


def test_the_default_model_is_coloured_and_switched_soon(
    browser: Browser, tmp_path: Path, record_property: Any
) -> None:
    server = AppServer(tmp_path / "cache")
    convert = [sys.executable, "-m", "headlens", "inspect", MODEL, "--json"]
    subprocess.run(convert, cwd=ROOT, env=server.environment, capture_output=True, check=True, timeout=240)
    try:
        server.start()
        app = App(browser.new_context(viewport={"width": 1280, "height": 900}).new_page())
        # Gradient scores, so that no sweep runs beside the switches that are timed below.
        app.open(server.link(model=MODEL, method="gradient"))
        record_property("SmolLM2, server start to coloured map", round(time.monotonic() - server.started, 2))
        app.expect_finished()
        behind = forwards_behind((29, 15, 0))
        app.page.evaluate(WATCH_LOSS)
        for number, layer in enumerate(behind):
            app.head(f"L{layer}H0").click()
            app.page.wait_for_function("(n) => window.changes.length > n", arg=number, timeout=SLOW)
            seconds = app.page.evaluate("(n) => window.changes[n] - window.pressed", number) / 1000
            record_property(
                f"SmolLM2, toggle in L{layer} (the part behind the lowest switch takes {behind[layer].seconds:.2f} s)",
                round(seconds, 2),
            )
            app.expect_still()
            app.expect_metric(behind[layer].loss)
        app.page.context.close()
    finally:
        server.kill()


class Behind:
    """One switch more: what the live set's loss becomes, and how long that takes without an app around it."""

    def __init__(self, loss: float, seconds: float) -> None:
        self.loss, self.seconds = loss, seconds


def forwards_behind(layers: tuple[int, ...]) -> dict[int, Behind]:
    """Head 0 of these layers off, one more each time, in this process and on one thread, as in the server."""
    import torch

    from headlens.data.select import live_set
    from headlens.heads import Head, HeadSet
    from headlens.lens import open_model
    from headlens.live import LiveEvaluator
    from headlens.metrics import METRICS

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        lens = open_model(MODEL)
        live = LiveEvaluator(lens, live_set(lens))
        found = {}
        for number, layer in enumerate(layers):
            off = HeadSet.of([Head("self", each, 0) for each in layers[: number + 1]])
            times, loss = [], float("nan")
            for _ in range(3):
                begin = time.monotonic()
                loss = live.evaluate(off, metric=METRICS["loss"]).main.value
                times.append(time.monotonic() - begin)
            found[layer] = Behind(loss, statistics.median(times))
        return found
    finally:
        torch.set_num_threads(threads)
