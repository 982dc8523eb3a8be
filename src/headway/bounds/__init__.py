"""What no policy can pass: a clairvoyant upper bound for any run, and the exact optimum of small ones."""

from headway.bounds.clairvoyant import Bound, Clairvoyant

__all__ = ["Bound", "Clairvoyant"]
