"""How long a schedule takes on a machine, and how far that is from the possible."""

from ringtree.price.bounds import Bound, Bounds, bound
from ringtree.price.pricing import Priced, Quote, quote, seconds

__all__ = ["Bound", "Bounds", "Priced", "Quote", "bound", "quote", "seconds"]
