"""Attributes that are made at their first use; names of packages are those of `ringtree` and its rooms."""

from __future__ import annotations

from threading import Barrier, Thread

from ringtree.late import Attribute


class Holder:
    def __init__(self, together: Barrier) -> None:
        self.together, self.made = together, 0

    @Attribute
    def value(self) -> object:
        """A new object each time that it is made."""
        self.made += 1
        self.together.wait(10)  # until every thread has found that there is none
        return object()


def test_an_attribute_is_made_once() -> None:
    holder = Holder(Barrier(1))
    assert holder.value is holder.value
    assert holder.made == 1


def test_threads_that_come_at_once_get_the_same() -> None:
    holder = Holder(Barrier(4))
    found: list[object] = []
    threads = [Thread(target=lambda: found.append(holder.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert holder.made == 4
    assert len(found) == 4 and len(set(map(id, found))) == 1


def test_the_class_has_the_documentation() -> None:
    assert Holder.value.__doc__ == "A new object each time that it is made."
