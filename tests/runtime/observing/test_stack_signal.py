"""The signal that ranks answer with their stacks."""

from __future__ import annotations

import signal

import pytest

from ringtree.runtime.observing.stacks import answer_signal, chosen_signal


def test_the_signal_for_stacks() -> None:
    assert chosen_signal({}) is None
    for wrong in ("SIGKILL", "1", "usr1"):
        with pytest.raises(ValueError, match="expected SIGUSR1 or SIGUSR2"):
            chosen_signal({"RINGTREE_STACK_SIGNAL": wrong})
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        with pytest.raises(ValueError, match="this program handles itself"):
            answer_signal({"RINGTREE_STACK_SIGNAL": "SIGUSR2"})
    finally:
        signal.signal(signal.SIGUSR2, before)
