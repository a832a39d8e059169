"""A real Ray cluster of two machines' worth on this one: two nodes with a core each, free ports, little memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

NICENESS = "RAY_worker_niceness"  # Ray knows it in small letters only
os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", NICENESS: "0"})

STORE = {"object_store_memory": 80 * 2**20, "plasma_directory": "/tmp"}
"""Not in /dev/shm, which is small in many containers."""
FAST = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 6}
"""A node that is gone is noticed in seconds."""


class TwoNodes:
    """The cluster and how to change it."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster()
        self.add(_system_config=FAST)
        self.second = self.add()

    @property
    def address(self) -> str:
        """HOST:PORT of the head."""
        return str(self.cluster.address)

    def add(self, **more: Any) -> object:
        """One more node with one core."""
        for tries_left in (2, 1, 0):
            try:
                return self.cluster.add_node(num_cpus=1, include_dashboard=False, **STORE, **more)
            except Exception as error:
                if not tries_left or "timed out during startup" not in str(error):  # a crowded machine takes longer
                    raise
        raise AssertionError

    def kill(self, node: object) -> None:
        """Ends a node's processes as a power cut would."""
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, headlens_cache: object) -> Iterator[TwoNodes]:
    """Started once for all tests of a file, ended with everything that belongs to it."""
    nodes = TwoNodes()
    try:
        yield nodes
    finally:
        import ray

        ray.shutdown()
        nodes.cluster.shutdown()
