"""What running on this machine's lanes costs beside the blocks: dispatch, switch, overlap, isolation, intake.

Prints one table in Markdown: the median and the range over repeats. Intake is that of a model never seen
before, for one lane and for all of them together, and again with its profile in the cache.

    python bench/overheads.py --repeats 5 --model resnet50
"""

from __future__ import annotations

import argparse
import datetime
import platform
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import onnxruntime

from headway.live.cache import ProfileCache
from headway.live.overheads import measure_isolation, measure_overheads
from headway.live.processors import available, machine
from headway.live.profiler import take_in
from headway.models import zoo
from headway.wiring.overheads import measure_dispatch


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", help="of the zoo, for the intake")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    processors = available()
    lanes = [(processor,) for processor in processors]
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for _ in range(options.repeats):
        overheads = measure_overheads(lanes)
        note("dispatch, warm and without deciding, us", 1e6 * overheads.dispatch_s)
        through = measure_dispatch(lanes)
        for gap_s, took_s in through.by_gap_s.items():
            note(
                f"a request of nothing through the driver, lane idle for {1e3 * gap_s:g} ms, us", 1e6 * took_s
            )
        note("a lane is cold after, ms", 1e3 * through.cold_after_s)
        note("switch to another model, us", 1e6 * overheads.switch_s)
        note("overlap loss w of two lanes", overheads.overlap_w)
        isolation = measure_isolation(lanes)
        note("isolation: a dispatch more, us", 1e6 * isolation.dispatch_s)
        note("isolation: start of the process, s", isolation.start_s)
        model = zoo.build(options.model)
        for widths in ({1: processors[:1]}, {1: processors[:1], len(processors): processors}):
            with tempfile.TemporaryDirectory() as folder:
                cache = ProfileCache(Path(folder))
                for how in ("new", "cached"):
                    started_s = perf_counter()
                    take_in(model, widths, cache=cache)
                    shown = " and ".join(map(str, sorted(widths)))
                    note(f"intake of {options.model}, {how}, widths {shown}, s", perf_counter() - started_s)
    print(f"`python bench/overheads.py --model {options.model} --repeats {options.repeats}`\n")
    print(
        f"{machine()}; Python {platform.python_version()}, ONNX Runtime {onnxruntime.__version__};"
        f" {datetime.date.today().isoformat()}\n"
    )
    print("| | median | least | most |\n| --- | --- | --- | --- |")
    for name, values in found.items():
        print(f"| {name} | {median(values):.3g} | {min(values):.3g} | {max(values):.3g} |")


if __name__ == "__main__":
    main()
