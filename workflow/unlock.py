"""Unlock the working directory after a crash, unless a living process still holds the run.

A run that was killed leaves Snakemake's lock behind, and may leave jobs that go on alone. They
write whole files or none, so they do no harm; they are waited for, so that no work is done twice.
"""

import os
import subprocess
import sys
from pathlib import Path

import psutil


def processes_here() -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Snakemake drivers and script jobs of this working directory, other than ourselves."""
    drivers, jobs = [], []
    for process in psutil.process_iter():
        try:
            words, folder = process.cmdline(), process.cwd()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if process.pid == os.getpid() or Path(folder) != Path.cwd():
            continue
        if any(Path(word).name == "snakemake" for word in words[:3]) or "snakemake" in words[1:3]:
            drivers.append(process)
        elif any(".snakemake/scripts/" in word for word in words):
            jobs.append(process)
    return drivers, jobs


def main() -> int:
    """Exit status: 0 when a run may start."""
    drivers, jobs = processes_here()
    if drivers:
        pids = ", ".join(str(process.pid) for process in drivers)
        print(f"Another run is at work here (process {pids}). Wait for it, or stop it.")
        return 1
    if jobs:
        print(f"Waiting for {len(jobs)} jobs that a killed run left behind ...", flush=True)
        _, alive = psutil.wait_procs(jobs, timeout=600)
        if alive:
            pids = ", ".join(str(process.pid) for process in alive)
            print(f"They are still at work (process {pids}). Wait for them, or stop them.")
            return 1
    locks = Path(".snakemake/locks")
    if locks.is_dir() and any(locks.iterdir()):
        print("A killed run left its lock; no living process holds it: unlocking.", flush=True)
        return subprocess.run(
            [sys.executable, "-m", "snakemake", "--unlock", "--cores", "1"],
            stdout=subprocess.DEVNULL,
            check=False,
        ).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
