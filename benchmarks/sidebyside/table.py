"""What the driver measured, as CSV and as Markdown."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.sidebyside.workload import SAMPLES, SIZES

PRODUCT = 20 * 2 * 1024**3

Row = dict[str, Any]


def row(name: str, peer: str, turns: Sequence[Mapping[str, float]], ours: Sequence[Mapping[str, float]]) -> Row:
    """Sum up a peer's turns; ratios are of neighbouring turns."""
    seconds = [turn["seconds"] for turn in turns]
    ratios = [a / b["seconds"] for a, b in zip(seconds, ours, strict=True)] if ours else [float("nan")]
    sizes = SIZES[name]
    flops = PRODUCT if peer == "matmul" else sizes.flops * sizes.chosen * SAMPLES * sizes.epochs
    return {
        "workload": name,
        "peer": peer,
        "turns": len(turns),
        "seconds": statistics.median(seconds),
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "times_fedstat": statistics.median(ratios),
        "times_fedstat_min": min(ratios),
        "times_fedstat_max": max(ratios),
        "cpu_seconds": statistics.median(turn["cpu"] for turn in turns),
        "other_cores": statistics.median(turn["others"] for turn in turns),
        "gflops": flops / statistics.median(seconds) / 1e9,
    }


def write_csv(file: Path, rows: Iterable[Row]) -> list[dict[str, str]]:
    """Write rows in place of those of the same workloads; return all of the file as text."""
    new = [
        {key: f"{value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items()} for row in rows
    ]
    fresh, old = {row["workload"] for row in new}, []
    if file.exists():
        with file.open(newline="") as before:
            old = [row for row in csv.DictReader(before) if row["workload"] not in fresh]
    table = sorted(old + new, key=lambda row: row["workload"])
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(new[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    return table


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return one table for each workload, with the conditions above it."""
    parts = []
    for name in sorted({str(row["workload"]) for row in rows}):
        own = [row for row in rows if row["workload"] == name]
        first = own[0]
        parts.append(
            f"**{name}**, {first['date']}, {first['threads']} threads, {first['turns']} turns after one to warm up; "
            f"{float(first['other_cores']):.2f} cores were busy with other work. "
            f"{'; '.join(dict.fromkeys(str(row['versions']) for row in own))}.\n"
        )
        parts.append(
            "| | times fedstat's | range | s a round | range | processor s | peak MiB | GFLOP/s | "
            "of the product's | test loss | accuracy |\n| --- |" + " ---: |" * 10
        )
        for row in own:
            value = {key: float(row[key]) for key in row if key not in ("workload", "peer", "date", "versions")}
            learnt = f"{value['test_loss']:.4f} | {value['accuracy']:.3f}" if row["peer"] != "matmul" else "|"
            ratio = (
                f"{value['times_fedstat']:.2f} | {value['times_fedstat_min']:.2f} to {value['times_fedstat_max']:.2f}"
            )
            parts.append(
                f"| {row['peer']} | {ratio if row['peer'] != 'matmul' else '|'} | {value['seconds']:.3f} | "
                f"{value['seconds_min']:.3f} to {value['seconds_max']:.3f} | "
                f"{value['cpu_seconds']:.2f} | {value['peak_mib']:.0f} | "
                f"{value['gflops']:.1f} | {value['share']:.0%} | {learnt} |"
            )
        parts.append("")
    return "\n".join(parts)


def paste(page: Path, command: str, text: str) -> None:
    """Put what a command wrote between its marks in a page."""
    begin, end = f"<!-- {command} -->", "<!-- end of what it wrote -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")
