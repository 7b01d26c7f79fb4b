"""Groups and processes seen from outside: what `ringtree ps` and `ringtree stack` show. For programs that are no rank
themselves: to close a descriptor of a group's memory drops the rank's own lock on it."""

from ringtree import late

__getattr__ = late.names(__name__, {"stacks": ("answer_signal",)})
