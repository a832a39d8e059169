"""Silence for libraries that talk while they load: their progress bars and warnings would break ``--json`` output."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# The switches of transformers are global, so only one thread at a time may flip and restore them.
_LOCK = threading.RLock()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers and huggingface_hub off stdout and stderr, and put their settings back afterwards.

    Blocks that run in different threads wait for each other; nesting in one thread is fine.
    """
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging as hf_logging

    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verbosity, hub_verbosity = hf_logging.get_verbosity(), hub_logging.get_verbosity()
        bars, hub_bars = hf_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
        hf_logging.set_verbosity(logging.CRITICAL)
        hub_logging.set_verbosity(logging.CRITICAL)
        accelerate, level = logging.getLogger("accelerate"), logging.getLogger("accelerate").level
        accelerate.setLevel(logging.ERROR)
        hf_logging.disable_progress_bar()
        disable_progress_bars()
        try:
            yield
        finally:
            accelerate.setLevel(level)
            hf_logging.set_verbosity(verbosity)
            hub_logging.set_verbosity(hub_verbosity)
            if bars:
                hf_logging.enable_progress_bar()
            if hub_bars:
                enable_progress_bars()
            else:
                disable_progress_bars()
