"""Tables in Markdown of what was found, the ideal beside it, and how far the targets are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

import numpy as np
from shared import ideal
from tenants import TENANTS, Arrival, in_time

ECHO_S = 0.21e-3
"""Processor time of a bare HTTP echo of a request of 602 KB: bench/serve.py."""
FRONT_S = 0.3e-3
"""What a front end may cost above it."""
WITHIN_POINTS = 4.0
TARGET_SLA = 4.0
GOODPUT_TARGETS = {0.8: 0.85, 0.95: 0.75}

Found = Mapping[str, Any]
Segments = Sequence[Mapping[str, Any]]


def segments_of(found: Found, system: str, utilisation: float, sla: float) -> Segments:
    """A system's segments of one cell; one that is deaf to SLAs has the same for all."""
    return [
        segment
        for segment in found["segments"]
        if segment["system"] == system
        and segment["utilisation"] == utilisation
        and segment["sla"] in (None, sla)
    ]


def sla_s(found: Found, multiple: float) -> dict[str, float]:
    """Each tenant's deadline."""
    return {name: multiple * alone for name, alone in found["calibration"]["isolated_s"].items()}


def shares(segments: Segments, limits: Mapping[str, float]) -> dict[str, float]:
    """The part of each tenant's requests that was answered in time; nan without requests."""
    good, offered = dict.fromkeys(TENANTS, 0), dict.fromkeys(TENANTS, 0)
    for record in _records(segments):
        name = record["tenant"]
        offered[name] += 1
        good[name] += record["outcome"] == "done" and record["latency_s"] <= limits[name]
    return {name: good[name] / offered[name] if offered[name] else float("nan") for name in TENANTS}


def goodput(segments: Segments, limits: Mapping[str, float]) -> float:
    """Requests in time, of those offered."""
    records = _records(segments)
    good = sum(r["outcome"] == "done" and r["latency_s"] <= limits[r["tenant"]] for r in records)
    return good / len(records) if records else float("nan")


def _records(segments: Segments) -> list[Mapping[str, Any]]:
    return [record for segment in segments for record in segment["records"]]


def charge_s(found: Found) -> float:
    """What the ideal pays for a request beside its model: echo, front end, and the load generator's part."""
    ours = [s for s in found["segments"] if s["system"] == "headway"]
    asked = len(_records(ours))
    return ECHO_S + FRONT_S + (sum(s["generator_s"] for s in ours) / asked if asked else 0.0)


def ideal_shares(found: Found, segments: Segments, sla: float) -> tuple[dict[str, float], float]:
    """What earliest deadline first with drops would have had in time in the same segments, and its goodput.

    One lane of all threads, preemptive every 2 ms, without overhead but for the charge, at the speed that the
    machine had by its probe.
    """
    limits, calibration, charge = sla_s(found, sla), found["calibration"], charge_s(found)
    good, offered = dict.fromkeys(TENANTS, 0), dict.fromkeys(TENANTS, 0)
    for segment in segments:
        slower = segment["probe_s"] / calibration["probe_s"]
        seconds = {name: alone * slower + charge for name, alone in calibration["isolated_s"].items()}
        arrivals = [
            Arrival(i, r["tenant"], r["arrival_s"], r["arrival_s"] + limits[r["tenant"]])
            for i, r in enumerate(segment["records"])
        ]
        ended = ideal(arrivals, seconds)  # type: ignore[arg-type]
        for name, count in in_time(arrivals, ended).items():
            good[name] += count
        for arrival in arrivals:
            offered[arrival.tenant] += 1
    part = {name: good[name] / offered[name] if offered[name] else float("nan") for name in TENANTS}
    return part, sum(good.values()) / max(1, sum(offered.values()))


def print_tables(found: Found) -> None:
    """All of it."""
    about, calibration = found["about"], found["calibration"]
    print(f"`{about['command']}`\n")
    print(
        f"{about['machine']}; Python {about['python']}, ONNX Runtime {about['onnxruntime']}; seed"
        f" {about['seed']}; {about['date']}; {about['rounds']} round(s)"
        f" of segments of {about['segment_s']:g} s.\n"
    )
    print("| tenant | model | alone, ms | requests a second at utilisation 1 |\n|" + " --- |" * 4)
    for name, tenant in TENANTS.items():
        alone = calibration["isolated_s"][name]
        rate = calibration["capacity"] * tenant.share / alone
        print(f"| {name} | {tenant.model} | {1e3 * alone:.2f} | {rate:.1f} |")
    print(f"\nThe better bare way does {calibration['capacity']:.3f} s of that work in a second.\n")
    print("| system | | alone through it, ms: " + ", ".join(TENANTS) + " |\n| --- | --- | --- |")
    for name, label in found["labels"].items():
        alone_ms = ", ".join(f"{1e3 * value:.1f}" for value in found["alone_s"][name].values())
        print(f"| {name} | {label} | {alone_ms} |")
    for name, reason in found["failures"].items():
        print(f"\n{name} was not measured: {reason.splitlines()[0] if reason else ''}")
    utilisations = sorted({segment["utilisation"] for segment in found["segments"]})
    for utilisation in utilisations:
        _print_level(found, utilisation)
    if "headway" in found["labels"]:
        _print_targets(found, utilisations)


def _print_level(found: Found, utilisation: float) -> None:
    slas = found["about"]["slas"]
    print(f"\n### Utilisation {utilisation:g}\n")
    heads = ["system", *(f"{name} p50/p99, ms" for name in TENANTS)]
    heads += [f"in time at SLA {sla:g}, %" for sla in slas] + [f"goodput at {sla:g}" for sla in slas]
    heads += ["failed", "foreign", "probe, ms", "worst lag, ms"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for system in found["labels"]:
        cells = [segments_of(found, system, utilisation, sla) for sla in slas]
        everything = {id(s): s for cell in cells for s in cell}.values()
        if not everything:
            continue
        latencies = [_latencies(segments_of(found, system, utilisation, slas[-1]), name) for name in TENANTS]
        parts = [
            "/".join(f"{100 * part:.0f}" for part in shares(cell, sla_s(found, sla)).values())
            for cell, sla in zip(cells, slas, strict=True)
        ]
        goods = [f"{goodput(cell, sla_s(found, sla)):.2f}" for cell, sla in zip(cells, slas, strict=True)]
        failed = sum(record["outcome"] == "failed" for record in _records(list(everything)))
        foreign = max(segment["foreign"] for segment in everything)
        probe_ms = 1e3 * mean(segment["probe_s"] for segment in everything)
        lag_ms = 1e3 * max(segment["worst_lag_s"] for segment in everything)
        row = [system, *latencies, *parts, *goods]
        row += [str(failed), f"{foreign:.2f}", f"{probe_ms:.1f}", f"{lag_ms:.1f}"]
        print("| " + " | ".join(row) + " |")
    if "headway" in found["labels"]:
        ideals = [ideal_shares(found, segments_of(found, "headway", utilisation, sla), sla) for sla in slas]
        parts = ["/".join(f"{100 * part:.0f}" for part in one.values()) for one, _ in ideals]
        row = ["ideal", *[""] * len(TENANTS), *parts, *(f"{good:.2f}" for _, good in ideals), *[""] * 4]
        print("| " + " | ".join(row) + " |")


def _latencies(segments: Segments, tenant: str) -> str:
    done = [
        record["latency_s"]
        for record in _records(segments)
        if record["tenant"] == tenant and record["outcome"] == "done"
    ]
    if not done:
        return "-"
    return f"{1e3 * median(done):.0f}/{1e3 * float(np.percentile(done, 99)):.0f}"


def _print_targets(found: Found, utilisations: Sequence[float]) -> None:
    print(f"\n### Targets at SLA {TARGET_SLA:g}\n")
    print(f"The ideal pays {1e3 * charge_s(found):.2f} ms a request beside its model.\n")
    limits = sla_s(found, TARGET_SLA)
    for utilisation in utilisations:
        segments = segments_of(found, "headway", utilisation, TARGET_SLA)
        if not segments:
            continue
        best, _ = ideal_shares(found, segments, TARGET_SLA)
        ours = shares(segments, limits)
        below = {name: 100 * (best[name] - ours[name]) for name in TENANTS if ours[name] == ours[name]}
        worst = max(below, key=lambda name: below[name])
        words = f"- {utilisation:g}: at most {below[worst]:.1f} points below the ideal ({worst}); "
        words += f"the target is {WITHIN_POINTS:g}"
        if utilisation in GOODPUT_TARGETS:
            words += (
                f"; goodput {goodput(segments, limits):.2f}, the target is {GOODPUT_TARGETS[utilisation]}"
            )
        refused = [r for r in _records(segments) if r["outcome"] == "refused"]
        if refused:
            words += f"; {_refusals(refused, limits)}"
        print(words)
    _print_tenants(found, utilisations)
    _print_ahead(found, utilisations)


def _refusals(refused: Sequence[Mapping[str, Any]], limits: Mapping[str, float]) -> str:
    """How early they came: a refusal is of use to a client while there is time to ask elsewhere."""
    waits_ms = [1e3 * one["latency_s"] for one in refused]
    parts = [one["latency_s"] / limits[one["tenant"]] for one in refused]
    return (
        f"{len(refused)} refused, at the median {median(waits_ms):.1f} ms after they were due, which is"
        f" {median(parts):.2f} of their time; {sum(part <= 1.0 for part in parts) / len(parts):.0%} before it"
        " was over"
    )


def _print_tenants(found: Found, utilisations: Sequence[float]) -> None:
    """Each tenant beside the ideal and the best of the others."""
    limits = sla_s(found, TARGET_SLA)
    heads = ["utilisation", "tenant", "ideal, %", "headway, %", "below the ideal", "best other, %"]
    print("\n| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for utilisation in utilisations:
        segments = segments_of(found, "headway", utilisation, TARGET_SLA)
        if not segments:
            continue
        best, _ = ideal_shares(found, segments, TARGET_SLA)
        ours = shares(segments, limits)
        others = _others(found, utilisation, TARGET_SLA)
        for name in TENANTS:
            other = max(others, key=lambda system: others[system][0][name], default="")
            told = f"{100 * others[other][0][name]:.0f} ({other})" if other else "-"
            row = [f"{utilisation:g}", name, f"{100 * best[name]:.0f}", f"{100 * ours[name]:.0f}"]
            print("| " + " | ".join([*row, f"{100 * (best[name] - ours[name]):+.1f}", told]) + " |")


def _others(found: Found, utilisation: float, sla: float) -> dict[str, tuple[dict[str, float], float]]:
    """Shares in time by tenant, and goodput, of all systems but Headway."""
    limits = sla_s(found, sla)
    cells = {
        system: segments_of(found, system, utilisation, sla)
        for system in found["labels"]
        if not system.startswith("headway")
    }
    return {system: (shares(cell, limits), goodput(cell, limits)) for system, cell in cells.items() if cell}


def _print_ahead(found: Found, utilisations: Sequence[float]) -> None:
    """Where others have more in time than Headway."""
    lines = []
    for utilisation in utilisations:
        for sla in found["about"]["slas"]:
            segments = segments_of(found, "headway", utilisation, sla)
            if not segments:
                continue
            limits = sla_s(found, sla)
            ours, good = shares(segments, limits), goodput(segments, limits)
            for system, (theirs, their_good) in _others(found, utilisation, sla).items():
                ahead = [
                    f"{name} {100 * theirs[name]:.0f} % against {100 * ours[name]:.0f} %"
                    for name in TENANTS
                    if theirs[name] > ours[name]
                ]
                if their_good > good:
                    ahead.append(f"goodput {their_good:.2f} against {good:.2f}")
                if ahead:
                    lines.append(f"- utilisation {utilisation:g}, SLA {sla:g}, {system}: {', '.join(ahead)}")
    print("\n### Where others are ahead\n")
    print("\n".join(lines) if lines else "Nowhere in these cells.")
