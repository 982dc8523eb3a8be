"""One more unit, byte or bit: whether the fastest mapping is ever slower on the better core.

Draws small cores of odd sizes with memories of a few hundred bytes, where a search that is not exact has most
to lose, adds one to one of their numbers, and compares the cycles, and the DRAM words where cycles are equal.

    python bench/increments.py --pairs 91 --seed 5
"""

from __future__ import annotations

import argparse
import random

from headway.config.hardware import load_hardware
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Hierarchy, main_memory
from headway.cost.nest import Nest
from headway.cost.search import map_layer

LAYERS = (
    Nest.of({"K": 37, "C": 11, "OY": 14, "OX": 14, "FY": 3, "FX": 3}),
    Nest.of({"G": 23, "OY": 14, "OX": 14, "FY": 3, "FX": 3}),
    Nest.of({"K": 100, "C": 61, "OY": 17}),
    Nest.of({"K": 16, "C": 8, "OY": 9, "OX": 9, "FY": 3, "FX": 3}, dilation=2, stride=2),
)
OPERANDS = (("inputs", ["I"]), ("sums", ["O"]), ("shared", ["I", "W", "O"]))


def core(units: dict[str, int], sizes_bytes: list[int], width_bits: int) -> Hierarchy:
    """A core with a memory for inputs, one for sums and one for all, under a DRAM of 64 bits a cycle."""
    memories = [
        {"name": name, "size": f"{size} B", "operands": operands, "width_bits": width_bits}
        | {"read_energy": "0.1 pJ", "write_energy": "0.1 pJ"}
        for (name, operands), size in zip(OPERANDS, sizes_bytes, strict=True)
    ]
    cores = [{"name": "core", "clock": "1 GHz", "unrolling": units, "memories": memories}]
    device = load_hardware(
        {"name": "drawn", "cores": cores, "dram": {"bandwidth": "8 GB/s", "energy": "60 pJ/B"}}
    )
    inside = device.cores[0].hierarchy
    assert inside is not None
    return inside.under(main_memory(64, 7.5, 7.5, len(inside.axes)))


def fastest(nest: Nest, hierarchy: Hierarchy) -> tuple[float, float]:
    """Cycles and DRAM words of the fastest mapping."""
    mapped = map_layer(nest, hierarchy)
    return mapped.latency_cycles, sum(mapped.words_of("dram").values())


def main() -> None:
    """Print every pair that gets worse, and how many there are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=91)
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    draw, tried, worse = random.Random(arguments.seed), 0, 0
    while tried < arguments.pairs:
        units = {
            "K": draw.choice([3, 5, 7, 11]),
            "C": draw.choice([2, 3, 6, 13]),
            "OX": draw.choice([1, 2, 3]),
        }
        sizes = [draw.choice([64, 200, 1000]), draw.choice([64, 300, 1000]), draw.choice([1000, 5000, 60000])]
        width, nest = draw.choice([16, 24, 64]), draw.choice(LAYERS)
        try:
            before = fastest(nest, core(units, sizes, width))
        except HeadwayError:  # nothing fits
            continue
        what = draw.choice([*units, "bytes", "width"])
        if what == "bytes":
            sizes[draw.randrange(3)] += 1
        elif what == "width":
            width += 1
        else:
            units[what] += 1
        after = fastest(nest, core(units, sizes, width))
        tried += 1
        slower = after[0] > before[0] * (1 + 1e-9)
        if slower or (after[0] >= before[0] * (1 - 1e-9) and after[1] > before[1] * (1 + 1e-9)):
            worse += 1
            changes = ", ".join(
                f"{name} {b / a - 1:+.2%}"
                for name, a, b in zip(("cycles", "words"), before, after, strict=True)
            )
            print(f"{what} + 1 -> {units}, {sizes} B, {width} bit, layer {nest.sizes}: {changes}")
    print(f"{worse} of {tried} pairs get slower, or move more in the same time (seed {arguments.seed}).")


if __name__ == "__main__":
    main()
