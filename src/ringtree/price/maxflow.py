"""Maximum flow of a network and its minimum cut, in whole numbers, so exact."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class FlowNetwork:
    """Nodes 0 … nodes-1 and directed edges with whole capacities of any size."""

    def __init__(self, nodes: int, edges: Iterable[tuple[int, int, int]]) -> None:
        """`edges`: (source, target, capacity)."""
        self.nodes = nodes
        self._ends: list[int] = []
        self._capacity: list[int] = []
        self._out: list[list[int]] = [[] for _ in range(nodes)]
        for source, target, capacity in edges:
            self.add(source, target, capacity)

    def add(self, source: int, target: int, capacity: int) -> None:
        """Adds an edge; its number is even, and the next is its residual."""
        for a, b, c in ((source, target, capacity), (target, source, 0)):
            self._out[a].append(len(self._ends))
            self._ends.append(b)
            self._capacity.append(c)

    def flow(self, source: int, target: int) -> tuple[int, set[int]]:
        """The maximum flow from one node to another, and the fewest nodes on the target's side of a minimum cut. By
        Dinic: shortest augmenting paths, a level graph at a time, O(nodes² edges)."""
        left = self._capacity.copy()
        total = 0
        while target in (level := self._levels(source, left)):
            at = [0] * self.nodes
            while pushed := self._push(source, target, level, at, left):
                total += pushed
        return total, self._reaching(target, left)

    def _reaching(self, target: int, left: list[int]) -> set[int]:
        """The nodes from which more flow could reach the target."""
        found, queue = {target}, deque([target])
        while queue:
            for edge in self._out[queue.popleft()]:
                if left[edge ^ 1] and self._ends[edge] not in found:
                    found.add(self._ends[edge])
                    queue.append(self._ends[edge])
        return found

    def _levels(self, source: int, left: list[int]) -> dict[int, int]:
        """The distance of each node that can still be reached."""
        level, queue = {source: 0}, deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._out[node]:
                to = self._ends[edge]
                if left[edge] and to not in level:
                    level[to] = level[node] + 1
                    queue.append(to)
        return level

    def _push(self, source: int, target: int, level: dict[int, int], at: list[int], left: list[int]) -> int:
        """Augments along one path of the level graph; `at` skips each node's dead edges."""
        path, node = list[int](), source
        while node != target:
            out = self._out[node]
            while at[node] < len(out):
                edge = out[at[node]]
                if left[edge] and level.get(self._ends[edge]) == level[node] + 1:
                    path.append(edge)
                    node = self._ends[edge]
                    break
                at[node] += 1
            else:
                if not path:
                    return 0
                edge = path.pop()
                node = self._ends[edge ^ 1]
                at[node] += 1
        least = min(left[edge] for edge in path)
        for edge in path:
            left[edge] -= least
            left[edge ^ 1] += least
        return least
