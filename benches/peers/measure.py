"""What a search takes: wall time by percentiles, CPU of the processes that do it, memory. Standard library only."""

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process):
    """User and system time that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def resident_mb(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def percentile(values, share):
    return sorted(values)[round((len(values) - 1) * share)]


def timed(search, questions, process, embedder):
    """Asks one question after the other. Returns the numbers, in milliseconds, and the answers."""
    before, before_embedder = cpu_seconds(process), cpu_seconds(embedder)
    times, answers = [], []
    for question in questions:
        start = time.perf_counter()
        answers.append(search(question))
        times.append((time.perf_counter() - start) * 1e3)
    each = 1e3 / len(questions)
    return {
        "p50_ms": percentile(times, 0.50),
        "p99_ms": percentile(times, 0.99),
        "cpu_ms": (cpu_seconds(process) - before) * each,
        "embedder_cpu_ms": (cpu_seconds(embedder) - before_embedder) * each,
    }, answers
