"""Where long work is computed: in the app's own process, or by the workers of a Ray cluster, who can be watched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.engine import engine_for, is_installed, using
from headlens.engine.base import GoneError
from headlens.errors import Cancelled, HeadlensError
from headlens.server import limits
from headlens.ui import background, inputs, state, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headlens.engine import Engine, WorkerState
    from headlens.ui.jobs import Job

POLL_SECONDS = 1.0
TITLES = {"local": "in this app", "ray": "on a Ray cluster"}
LINES = {
    "local": "One thing after the other, with the model that is open here.",
    "ray": "Sweeps, curves, claims and runs of the lab are cut into units for its workers; results are the same.",
}


class Kept:
    """The one connection of this server to a cluster; made when it is first needed, and again after trouble."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.lock = threading.Lock()

    def get(self) -> Engine:
        """The engine; raises HeadlensError where no cluster answers."""
        with self.lock:
            if self.engine is None or not self.engine.alive:
                self.engine = engine_for("ray")
            return self.engine

    def drop(self) -> None:
        """The next job connects anew."""
        with self.lock:
            engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()

    def workers(self) -> Sequence[WorkerState]:
        """Who is or was at work."""
        return () if self.engine is None else self.engine.workers()


@st.cache_resource(show_spinner=False)
def kept() -> Kept:
    """Shared by all sessions, as the jobs are."""
    return Kept()


def offered() -> bool:
    """Whether there is anything to choose: not where anybody may open the page, nor without Ray."""
    return is_installed() and limits.current().profile == "own"


def placed(work: Callable[[Job], Any]) -> Callable[[Job], Any]:
    """``work`` as a job for the engine that the session has chosen now."""
    if not offered() or state.remember("engine", "local") == "local":
        return work
    shared = kept()

    def there(job: Job) -> Any:
        try:
            with using(shared.get()):
                return work(job)
        except GoneError:
            shared.drop()
            raise
        except (Cancelled, HeadlensError):
            raise
        except Exception:
            shared.drop()
            raise

    return there


def engine_choice() -> None:
    """Draws the choice, and the workers once there are any; call inside the sidebar."""
    if not offered():
        return
    with st.expander("Where to compute"):
        current = inputs.choice("Long work is done", "engine", TITLES, first="local", kind="radio")
        st.caption(LINES[current])
        if current == "ray":
            st.fragment(run_every=background.poll_seconds(POLL_SECONDS))(_workers)()


def _workers() -> None:
    workers = kept().workers()
    st.markdown(words.plain(sentence(workers)))
    if workers:
        rows = [
            {"worker": one.number, "machine": one.place or "…", "state": one.standing, "parts done": one.done}
            for one in workers
        ]
        st.dataframe(rows, hide_index=True, width="stretch", key="workers")


def sentence(workers: Sequence[WorkerState]) -> str:
    """How many workers there are, and what they have done."""
    if not workers:
        return (
            "No worker yet: they start with the next computation, on the cluster that RAY_ADDRESS names, "
            "else on the cores of this machine."
        )
    alive = [one for one in workers if one.standing in ("starting", "ready", "working")]
    busy = sum(one.standing == "working" for one in alive)
    lost = sum(one.standing == "lost" for one in workers)
    parts = sum(one.done for one in workers)
    count = len({one.place for one in alive if one.place})
    machines = f"{count} {'machine' if count == 1 else 'machines'}"
    told = f"{len(alive)} alive on {machines}, {busy} at work, {parts} parts of the work done"
    return f"{told}; {lost} lost, whose parts others did." if lost else f"{told}."
