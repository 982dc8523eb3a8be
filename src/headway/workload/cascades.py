"""Cascades: which requests a finished one causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.config.arrivals import After, AnyArrivals
from headway.workload.draws import NumberedDraws


@dataclass(frozen=True, slots=True)
class _Child:
    position: int
    probability: float
    draws: NumberedDraws


class Cascades:
    """The children of each tenant. One draw for each request of a parent decides whether it causes one of a
    child; it depends on the seed, the child's name and the index alone.

    Args:
        arrivals: each tenant's name and process, in order.
        seed: of all draws.
    """

    def __init__(self, arrivals: Sequence[tuple[str, AnyArrivals]], seed: int) -> None:
        positions = {name: position for position, (name, _) in enumerate(arrivals)}
        self._children: Mapping[int, list[_Child]] = {position: [] for position in positions.values()}
        for name, process in arrivals:
            if isinstance(process, After):
                if process.parent not in positions:
                    raise ValueError(f"tenant {name!r} comes after {process.parent!r}, which is no tenant")
                draws = NumberedDraws(seed, "cascade", name)
                child = _Child(positions[name], process.probability, draws)
                self._children[positions[process.parent]].append(child)

    def causes(self, position: int) -> bool:
        """Whether a tenant has children at all."""
        return bool(self._children[position])

    def caused(self, position: int, index: int) -> Iterator[int]:
        """The positions of the tenants of which a tenant's request of that index causes one request each."""
        for child in self._children[position]:
            if child.probability >= 1.0 or child.draws.at(index) < child.probability:
                yield child.position

    def descendants(self, position: int, index: int) -> int:
        """How many requests hang on that request, children of children included."""
        return sum(1 + self.descendants(child, index) for child in self.caused(position, index))
