"""The zoo's index: which models there are, which options each takes, and building one by name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    import onnx

    Construct = Callable[..., None]


@dataclass(frozen=True, slots=True)
class ZooOption:
    """One whole-number option of a zoo model, with the values it accepts (both ends included)."""

    name: str
    default: int
    meaning: str
    minimum: int = 1
    maximum: int | None = None

    @property
    def accepted(self) -> str:
        """The accepted values in words, for messages and listings."""
        if self.maximum is None:
            return f"a whole number, at least {self.minimum}"
        return f"a whole number from {self.minimum} to {self.maximum}"


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """What the zoo says about a model; ``inputs`` are told in words, at the default options."""

    name: str
    family: str
    summary: str
    inputs: str
    source: str
    options: tuple[ZooOption, ...] = ()


_MODELS: dict[str, tuple[ZooEntry, Construct]] = {}


def zoo_model(
    name: str, *, family: str, summary: str, inputs: str, source: str, options: tuple[ZooOption, ...] = ()
) -> Callable[[Construct], Construct]:
    """Register the decorated function, ``construct(builder, batch, **options)``, as the model ``name``."""

    def register(construct: Construct) -> Construct:
        if name in _MODELS:
            raise ValueError(f"zoo model {name!r} is registered twice")
        _MODELS[name] = (ZooEntry(name, family, summary, inputs, source, options), construct)
        return construct

    return register


def names() -> tuple[str, ...]:
    """All model names, in alphabetical order."""
    return tuple(sorted(_MODELS))


def describe(name: str) -> ZooEntry:
    """What the zoo knows about ``name``.

    Raises HeadwayError for an unknown name, with the closest match and all accepted names.
    """
    return _lookup(name)[0]


def build(
    name: str, *, batch: int = 1, seed: int = 0, weights: bool = True, **options: int
) -> onnx.ModelProto:
    """Build a zoo model as an ONNX graph (opset 17, float32, every shape static).

    ``batch`` is the leading dimension of every input. ``options`` are those that ``describe(name)`` lists,
    for example ``image_size`` (pixels per side) or ``sequence_length`` (tokens).

    With ``weights`` each parameter is drawn from its own generator, keyed by ``seed`` and the parameter's
    name, so that a changed layer leaves all other parameters as they were. Their scale keeps activations
    finite in float32; the outputs mean nothing.

    With ``weights=False`` the parameters keep name, type and shape but have no data: each initialiser is
    marked as external data at the location ``absent``, as in graphs that were published without their
    weights. No number is drawn and no memory is taken for them, which suits simulation, where only shapes
    count; such a graph cannot be executed. Constants that shapes depend on are always there.

    Initialisers are exactly the model's parameters; fixed values (reshape targets, masks, positions) are
    Constant nodes. Batch normalisation is folded into the convolutions before it, as exporters do.

    Raises HeadwayError for an unknown name or option, a value outside the accepted range, or a size at which
    a layer would have no output left.
    """
    from headway.models.zoo.builder import GraphBuilder

    entry, construct = _lookup(name)
    _check_number(name, ZooOption("batch", 1, "leading dimension of every input"), batch)
    _check_number(name, ZooOption("seed", 0, "seed of the weights", minimum=0), seed)
    values = _checked_options(entry, options)
    builder = GraphBuilder(name, seed=seed, weights=weights)
    construct(builder, batch, **values)
    return builder.finish(doc=f"{entry.summary}. Source: {entry.source}")


def count_parameters(model: onnx.ModelProto) -> int:
    """Elements of all parameters of a model from ``build``, biases and folded normalisations included."""
    return sum(math.prod(tensor.dims) for tensor in model.graph.initializer)


def _lookup(name: str) -> tuple[ZooEntry, Construct]:
    found = _MODELS.get(name)
    if found is None:
        raise HeadwayError(f"zoo: no model named {name!r}{_closest(name, _MODELS)}; {_accepted(names())}")
    return found


def _checked_options(entry: ZooEntry, given: dict[str, int]) -> dict[str, int]:
    known = {option.name: option for option in entry.options}
    for name in given:
        if name not in known:
            accepts = _accepted(known) if known else "it takes none besides batch and seed"
            raise HeadwayError(
                f"zoo model {entry.name!r}: no option named {name!r}{_closest(name, known)}; {accepts}"
            )
    values = {name: given.get(name, option.default) for name, option in known.items()}
    for name, value in values.items():
        _check_number(entry.name, known[name], value)
    return values


def _check_number(model: str, option: ZooOption, value: object) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    too_large = whole and option.maximum is not None and value > option.maximum  # type: ignore[operator]
    if not whole or too_large or value < option.minimum:  # type: ignore[operator]
        raise HeadwayError(f"zoo model {model!r}: {option.name} = {value!r}; accepted: {option.accepted}")


def _closest(name: str, known: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def _accepted(known: Iterable[str]) -> str:
    return "accepted: " + ", ".join(known)
