"""``python -m headlens``."""

from __future__ import annotations

import sys

from headlens.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
