"""Types of the arrays of the cost model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
