"""What each job took: written beside its log when it ends, read into the table `timings`.

Snakemake's own benchmark files are not used: after the first seconds they sample every 30 s, so
processor time and peak memory of what comes after the last sample are lost.
"""

import json
import platform
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SUFFIX = ".usage.json"
"""Of the record beside a log: `x.log` has `x.usage.json`."""


def record(log: Path) -> None:
    """Write what this process took so far: time, processor time (with ended children), peak."""
    import psutil

    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(one) for one in who]
    taken = {
        "seconds": time.time() - psutil.Process().create_time(),
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in used),
        "peak_mib": _peak_bytes() / 2**20,
        "machine": _machine(),
    }
    log.with_suffix(SUFFIX).write_text(json.dumps(taken))


def _peak_bytes() -> int:
    """Largest resident memory of this process."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On Linux ru_maxrss begins at what the parent held when it forked; this does not.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _machine() -> str:
    """The processor's name, and the GPU's where this process used one."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        _, found, rest = cpuinfo.read_text().partition("model name\t: ")
        name = rest.partition("\n")[0].strip() if found else name
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        name += f", {torch.cuda.get_device_name()}"
    return name


def timings(folder: Path, logs: Iterable[Path]) -> list[dict[str, Any]]:
    """Rows of the table `timings`, one a record that is there.

    Args:
        folder: results/logs; the first part of a log's path below it is its rule.
        logs: of the study's jobs; missing and broken records are passed over.
    """
    rows = []
    for log in logs:
        try:
            taken = json.loads(log.with_suffix(SUFFIX).read_text())
            job = log.relative_to(folder)
            rows.append({"stage": job.parts[0], "job": job.as_posix()} | taken)
        except (FileNotFoundError, json.JSONDecodeError):
            continue
    return rows
