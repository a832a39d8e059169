"""Reaching a Ray cluster, or starting one on this machine; every mistake in one line and within seconds."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from headlens.errors import HeadlensError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # of a Ray of our own: its work is what the user waits for

import ray  # it reads these when it is imported

ADDRESS_VARIABLE = "RAY_ADDRESS"
ANSWER_SECONDS = 3.0
"""A cluster that has not answered after so long is not there."""
OBJECT_STORE_BYTES = 512 * 2**20
"""Of a Ray that we start ourselves: it holds the examples once, nothing else of size."""
TRIES, SLOW = 3, "timed out during startup"
"""Ray gives its own processes 30 seconds to start, which a crowded machine may not manage at once."""
JOIN = "start one with `ray start --head` and give the address it prints"

_STARTER = ThreadPoolExecutor(1, "headlens-ray")
"""Linux ends the processes of a Ray of our own with the *thread* that started them, and Ray then ends this process: a
server's job must not be that thread."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How an HTTP/2 client begins: preface and empty SETTINGS frame (RFC 9113, 3.4). Ray talks gRPC, which is HTTP/2."""


def connect(address: str | None, cores: int | None) -> bool:
    """Connects this process.

    Args:
        address: HOST:PORT or ``auto``; None: what ``RAY_ADDRESS`` says, else a Ray of our own.
        cores: of a Ray of our own; None: as many as the machine has.

    Returns:
        Whether the connection is ours to close: False where this process was connected already.

    Raises:
        HeadlensError: nothing answers there, it is no Ray cluster, or one of another version.
    """
    wanted = address or os.environ.get(ADDRESS_VARIABLE) or "local"
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if wanted not in ("local", "auto", there):
            raise HeadlensError(f"this process is part of the Ray cluster at {there} already; leave --address out")
        return False
    if wanted not in ("local", "auto"):
        check_address(wanted)
        check_admission(wanted)
    own: dict[str, Any] = {}
    if wanted == "local":
        own = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    _quiet()
    with _our_signals():
        if threading.current_thread() is threading.main_thread():
            _start(wanted, own)
        else:
            _STARTER.submit(_start, wanted, own).result()
    return True


def _start(wanted: str, own: dict[str, Any]) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            ray.init(address=wanted, logging_level=logging.ERROR, log_to_driver=False, **own)
            return
        except Exception as error:
            ray.shutdown()
            if not (tries_left and SLOW in str(error)):
                raise _explained(wanted, error) from error


def _explained(wanted: str, error: Exception) -> HeadlensError:
    if isinstance(error, ConnectionError):
        return HeadlensError(f"no Ray cluster is reachable at {wanted}; {JOIN}")
    if "ersion mismatch" in str(error):
        return HeadlensError(f"{error}; install the same Ray and Python here")
    return HeadlensError(f"Ray did not start ({wanted}): {_first_line(error)}; {JOIN}")


def disconnect() -> None:
    """Leaves the cluster; a Ray of our own ends."""
    with _our_signals():
        ray.shutdown()


def check_address(address: str) -> None:
    """Whether a Ray cluster may be there, within :data:`ANSWER_SECONDS`.

    Raises:
        HeadlensError: no address, nothing answers, or something else does.
    """
    host, colon, port = address.rpartition(":")
    if "//" in address or not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise HeadlensError(
            f"--address {address!r}: give HOST:PORT of the cluster's head, as `ray start --head` prints it, or auto, "
            "on a machine that is part of the cluster"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
            connection.settimeout(ANSWER_SECONDS)
            if os.environ.get("RAY_USE_TLS", "0") == "1":  # then it does not talk in the clear
                return
            connection.sendall(_GREETING)
            answer = connection.recv(9)
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or error
        raise HeadlensError(f"no Ray cluster answers at {address} ({why}); {JOIN}") from error
    if len(answer) < 4 or answer[3] not in (4, 7):  # SETTINGS, or GOAWAY of a server that is busy
        raise HeadlensError(f"what answers at {address} is no Ray cluster; {JOIN}")


def check_admission(address: str) -> None:
    """Whether the cluster lets us in: Ray itself tries for half a minute, and then says that nobody was there.

    Raises:
        HeadlensError: it asks for a token, and we have none or another one. Ray takes a machine's own token for
            ``auto`` only: a token that is shown to a wrong address is given away.
    """
    try:
        from ray._raylet import GcsClient  # pyright: ignore[reportAttributeAccessIssue] - it is no Python
        from ray.exceptions import AuthenticationError
    except ImportError:  # an older Ray knows no tokens
        return
    try:
        with _unheard():
            GcsClient(address=address)
    except AuthenticationError as error:
        raise HeadlensError(
            f"the Ray cluster at {address} asks for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to what "
            "`ray get-auth-token` says on its head, or give --address auto on a machine that is part of the cluster"
        ) from error
    except Exception:  # noqa: BLE001 - whatever else is wrong, connecting says it
        return


def head_is_there() -> bool:
    """Whether the head of the cluster that this process is connected to still takes connections."""
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS):
            return True
    except OSError:
        return False


def places(memory: int, accelerator: bool) -> int:
    """How many workers the machines that are there can hold: one a core (or GPU), as their memory allows.

    Args:
        memory: bytes of each worker.
        accelerator: whether each needs a GPU.
    """
    found = 0
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            fits = int(has.get("memory", 0.0) // memory) if memory else 10**6
            found += min(int(has.get("GPU" if accelerator else "CPU", 0.0)), fits)
    return found


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".;")


def _quiet() -> None:
    """Ray prints what happens to nodes, many lines each, wherever stdout goes; the engine tells it in one line."""
    with suppress(ImportError, AttributeError):
        from ray._private import worker

        if hasattr(worker, "print_to_stdstream"):
            worker.print_to_stdstream = lambda *_, **__: None


@contextmanager
def _unheard() -> Iterator[None]:
    """Ray's own code, which is no Python, writes to the process's stderr, where an error takes one line: ours."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _our_signals() -> Iterator[None]:
    """Ray puts its own handler on SIGTERM, which would end the command without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
