"""Schedule -> Schedule: the algebra. A transform returns a legal schedule that keeps its collective's postcondition."""

from ringtree.transform.balance import balance
from ringtree.transform.divide import channels, pipeline, share, split
from ringtree.transform.many_source import many_source
from ringtree.transform.nest import nest
from ringtree.transform.nest_in_hosts import nest_in_hosts
from ringtree.transform.one_buffer import in_place
from ringtree.transform.phases import ScheduleBuilder
from ringtree.transform.relabel import relabel
from ringtree.transform.reverse import reverse

__all__ = [
    "ScheduleBuilder",
    "balance",
    "channels",
    "in_place",
    "many_source",
    "nest",
    "nest_in_hosts",
    "pipeline",
    "relabel",
    "reverse",
    "share",
    "split",
]
