"""Does the chain of blocks give what the whole model gives?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headway.models.chain import SplitModel
from headway.models.runtime_session import SessionSettings, run_failure
from headway.models.sample_inputs import Inputs

if TYPE_CHECKING:
    import numpy as np

# Relative to the largest value of the tensor. Of the types of all tensors inside the coarsest counts, since
# a value that falls to the other side of a rounding there moves whatever follows.
_TOLERANCE: Final = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
    "int8": 5e-2,
    "uint8": 5e-2,
}
_NO_ARRAYS: Final = ("bfloat16", "float8")
_COARSE: Final = 0.25  # one step of floating-point types of 8 bits


@dataclass(frozen=True, slots=True)
class Recomposition:
    """What came of the comparison.

    `worst_error` is the largest difference over all outputs, relative to the largest magnitude of its
    output; 0 if equal to the bit, infinite if outputs differ in number, type or shape. `skipped` says why
    nothing was compared.
    """

    equal: bool
    bit_equal: bool
    worst_error: float
    worst_output: str
    skipped: str = ""


def recompose(chain: SplitModel, inputs: Inputs | None = None, *, threads: int = 1) -> Recomposition:
    """Run a split model and the whole one on the same inputs and compare their outputs.

    Values must be equal to the bit or within the tolerance of the coarsest type inside; integers, booleans
    and strings must be equal. A model that draws random numbers is not compared.

    Args:
        chain: the split model.
        inputs: made up by default.
        threads: intra-op threads of both.

    Raises:
        HeadwayError: the inputs do not fit, or one of both fails.
    """
    if chain.random_nodes:
        return Recomposition(False, False, 0.0, "", f"{chain.random_nodes[0]} draws random numbers")
    ends = [*chain.inputs.values(), *(chain.types[name] for name in chain.outputs)]
    narrow = next((end.dtype for end in ends if end.dtype.startswith(_NO_ARRAYS)), "")
    if narrow:
        return Recomposition(False, False, 0.0, "", f"ONNX Runtime exchanges no {narrow} arrays with Python")
    feeds = dict(inputs) if inputs is not None else chain.sample()
    session = chain.whole.open(SessionSettings(threads=threads))
    try:
        names = [output.name for output in session.get_outputs()]
        expected = dict(zip(names, session.run(None, feeds), strict=True))
    except Exception as error:
        # ONNX Runtime's exceptions have no common base class but this one.
        raise run_failure(error, chain.where) from error
    found = chain.run(feeds, threads)
    worst_error, worst_output, equal = 0.0, "", set(expected) == set(found)
    tolerance = _tolerance(chain)
    for name in found if equal else ():
        off, within = _difference(expected[name], found[name], tolerance)
        equal = equal and within
        if off > worst_error:
            worst_error, worst_output = off, name
    return Recomposition(equal, equal and worst_error == 0.0, worst_error, worst_output)


def _tolerance(chain: SplitModel) -> float:
    dtypes = {value.dtype for value in chain.types.values()}
    known = [_TOLERANCE[dtype] for dtype in dtypes if dtype in _TOLERANCE]
    coarse = [_COARSE for dtype in dtypes if dtype.startswith("float8")]
    return max((*known, *coarse), default=0.0)


def _difference(expected: Any, found: Any, tolerance: float) -> tuple[float, bool]:
    """The relative error, and whether it is within the tolerance."""
    import numpy as np

    if expected is None or found is None:
        return (0.0, True) if expected is found else (np.inf, False)
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(expected) != list(found):
            return np.inf, False
        expected, found = list(expected.values()), list(found.values())
    if isinstance(expected, list):
        if not isinstance(found, list) or len(expected) != len(found):
            return np.inf, False
        parts = [_difference(a, b, tolerance) for a, b in zip(expected, found, strict=True)]
        return max((error for error, _ in parts), default=0.0), all(within for _, within in parts)
    a, b = np.asarray(expected), np.asarray(found)
    if a.dtype != b.dtype or a.shape != b.shape:
        return np.inf, False
    if a.dtype == object or a.dtype.kind in "US":
        return (0.0, True) if bool((a == b).all()) else (np.inf, False)
    if a.tobytes() == b.tobytes():
        return 0.0, True
    return _numeric_difference(a, b, tolerance)


def _numeric_difference(a: np.ndarray, b: np.ndarray, tolerance: float) -> tuple[float, bool]:
    import numpy as np

    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
    if bool(same.all()):
        return 0.0, True  # zeros of either sign, and any sort of not-a-number
    if not bool((np.isfinite(wide_a) == np.isfinite(wide_b)).all()):
        return np.inf, False
    finite = np.isfinite(wide_a) & ~same
    if not bool((same | finite).all()):
        return np.inf, False  # infinities of opposite sign
    scale = float(np.abs(wide_a[np.isfinite(wide_a)]).max())
    error = float(np.abs(wide_a - wide_b)[finite].max()) / (scale or 1.0)
    return error, "float" in a.dtype.name and error <= tolerance
