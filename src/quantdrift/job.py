"""What every script of the workflow does before and around its work: log, progress, threads.

The library itself is silent; scripts use these few functions, and tests may call them too.
"""

import atexit
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from .tables.usage import record

Item = TypeVar("Item")

log = logging.getLogger("quantdrift")

_SECONDS_BETWEEN_LINES = 5.0
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")


def start(log_file: str, threads: int, *, online: bool = False) -> None:
    """Send messages and uncaught exceptions to the log and the terminal; hold `threads`.

    Snakemake does not send a script's traceback to the rule's log: the hook here does. Only the
    jobs that download are `online`; for all others the hub is switched off. At its end the job
    leaves what it took beside its log.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    if not online:
        os.environ |= dict.fromkeys(_OFFLINE, "1")
        if hub := sys.modules.get("huggingface_hub.constants"):  # it read them when imported
            vars(hub)["HF_HUB_OFFLINE"] = True
    Path(log_file).parent.mkdir(parents=True, exist_ok=True)
    atexit.register(record, Path(log_file))
    formatter = logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S")
    to_file, to_terminal = logging.FileHandler(log_file, mode="w"), logging.StreamHandler()
    # What a log keeps and a terminal needs differ: the terminal sees progress and errors alone.
    to_terminal.addFilter(lambda record: getattr(record, "terminal", record.levelno > logging.INFO))
    for handler in (to_file, to_terminal):
        handler.setFormatter(formatter)
        log.addHandler(handler)
    log.setLevel(logging.INFO)

    def on_exception(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        log.info("failed", exc_info=(kind, error, trace))
        causes = [f"{kind.__name__}: {error}"]
        log.error("%s (log: %s)", causes[0], log_file)

    sys.excepthook = on_exception


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Yield the items; say how many are done and how long is left, every few seconds."""
    began = spoke = time.monotonic()
    done = 0
    for item in items:
        yield item
        done += 1
        now = time.monotonic()
        if now - spoke >= _SECONDS_BETWEEN_LINES and done < total:
            left = (now - began) / done * (total - done)
            log.info("%s: %d of %d, %s left", label, done, total, _duration(left), extra=_SEEN)
            spoke = now
    log.info("%s: %d done in %s", label, done, _duration(time.monotonic() - began))


def say(line: str) -> None:
    """To the log, and to a terminal that waits."""
    log.info(line, extra=_SEEN)


def require_memory(needed: int, remedy: str) -> None:
    """Stop before the work if it needs more memory than this machine has free.

    Raises:
        MemoryError: says how much is needed and free, and what to do.
    """
    import psutil

    free = psutil.virtual_memory().available
    if needed > free:
        raise MemoryError(
            f"{needed / 2**30:.1f} GiB are needed and {free / 2**30:.1f} GiB are free; {remedy}."
        )


def provenance(**facts: Any) -> dict[str, Any]:
    """Facts about how a file was made, with the versions of what made it."""
    packages = ("quantdrift", "numpy", "libggml-python", "pyarrow")
    return {"versions": {name: version(name) for name in packages}} | facts


_SEEN = {"terminal": True}


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
