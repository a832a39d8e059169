"""What heads do, read from where they look: role detectors and their scores."""

from __future__ import annotations

from headlens.roles.base import Detector, Repeat, Seen
from headlens.roles.registry import DETECTORS
from headlens.roles.score import RoleScores, roles

__all__ = ["DETECTORS", "Detector", "Repeat", "RoleScores", "Seen", "roles"]
