"""Operation graphs, played: the rules of processors and messages one by one, and programs that take the same time as
graphs, and again as files of GOAL and Chakra."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import build, pairs
from ringtree.formats import load as load_schedule
from ringtree.formats.operations import chakra, goal, load
from ringtree.ir.operations import ANY, CollectiveCall, GraphBuilder, OperationGraph, OperationKind
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.trace import Event
from ringtree.price import Hosts, SharedMemory, over_hosts
from ringtree.simulate import Conditions, Job, StuckError, play
from ringtree.simulate.as_operations import as_operations, expand
from ringtree.simulate.matching import Matching
from ringtree.simulate.operations import play_graph
from ringtree.topology import Topology, parse
from tests.formats.writing import algo, write

US = 1e-6
LINKS = "direct:latency=2us,bandwidth=1GB/s"
WORK = LINKS + ",message=0.5us,step=0.25us,copy=4GB/s,reduce=2GB/s"


class Graph(GraphBuilder):
    """A graph in few words; `deps` are rows that an operation waits for the end of."""

    def compute(self, rank: int, micros: float, *deps: int, cpu: int = 0) -> int:
        return self._waiting(self.add(OperationKind.COMPUTE, rank, processor=cpu, compute_s=micros * US), deps)

    def send(self, rank: int, peer: int, nbytes: int, *deps: int, tag: int = 0, cpu: int = 0) -> int:
        return self._waiting(self.add(OperationKind.SEND, rank, nbytes, peer, tag, cpu), deps)

    def receive(self, rank: int, peer: int, nbytes: int, *deps: int, tag: int = 0, cpu: int = 0) -> int:
        return self._waiting(self.add(OperationKind.RECEIVE, rank, nbytes, peer, tag, cpu), deps)

    def _waiting(self, row: int, deps: tuple[int, ...]) -> int:
        for before in deps:
            self.depend(row, before)
        return row

    def micros(self, ranks: int, topology: str = LINKS, **more: object) -> float:
        found, _ = play_graph(self.build("made", ranks), parse(topology, ranks), **more)  # type: ignore[arg-type]
        return found.time_s / US


def test_a_processor_does_one_operation_at_a_time() -> None:
    g = Graph()
    for cpu in (0, 0, 1):
        g.compute(0, 10, cpu=cpu)
    assert g.micros(1) == pytest.approx(20)


def test_what_was_ready_first_comes_first() -> None:
    """a (1 us) lets c be ready at 1; b is ready at 0, and takes the processor before c; d waits for c."""
    g = Graph()
    a = g.compute(0, 1)
    c = g.compute(0, 5, a)
    g.compute(0, 10)
    g.compute(0, 7, c, cpu=1)
    assert g.micros(1) == pytest.approx(1 + 10 + 5 + 7)


def test_a_dependency_on_a_start() -> None:
    g = Graph()
    a = g.compute(0, 4)
    b = g.compute(0, 3, a)
    g.depend(g.compute(0, 6, cpu=1), b, at_start=True)
    assert g.micros(1) == pytest.approx(4 + 6)


def test_a_message_takes_its_way() -> None:
    """1,000 bytes at 1 GB/s take 1 us; the receive ends 0.5 us after the arrival at 0.5 + 1 + 2."""
    g = Graph()
    g.send(0, 1, 1000)
    g.compute(1, 2, g.receive(1, 0, 1000))
    assert g.micros(2) == pytest.approx(1 + 2 + 2)
    assert g.micros(2, WORK) == pytest.approx(0.5 + 1 + 2 + 0.5 + 2)


def test_a_receive_that_is_posted_early_holds_up_nothing() -> None:
    g = Graph()
    g.receive(1, 0, 1000)
    g.compute(1, 50)
    g.send(0, 1, 1000, g.compute(0, 10))
    topology = parse(LINKS, 2)
    found, left = play_graph(g.build("made", 2), topology)
    assert found.time_s == pytest.approx(50 * US) and left == 0
    waits = found.trace.take(found.trace.kind == Event.WAIT)
    assert waits.start_s.tolist() == pytest.approx([50 * US])  # it wanted nothing before that


def test_messages_match_by_peer_and_tag_in_their_order() -> None:
    g = Graph()
    for tag, nbytes in ((1, 3000), (2, 1000), (1, 1000)):
        g.send(0, 1, nbytes, tag=tag)
    first = g.receive(1, 0, 3000, tag=1)
    g.compute(1, 100, g.receive(1, 0, 1000, tag=2), cpu=1)  # arrives at 4 + 2
    g.compute(1, 90, first, cpu=2)  # arrives at 3 + 2
    g.compute(1, 80, g.receive(1, 0, 1000, first, tag=1), cpu=3)  # arrives at 5 + 2
    found, _ = play_graph(g.build("made", 2), parse(LINKS, 2))
    ends = sorted(found.trace.end_s[found.trace.kind == Event.COMPUTE] / US)
    assert ends == pytest.approx([87, 95, 106])
    sent, taken = found.trace.messages()
    assert len(sent) == 3 and np.array_equal(found.trace.nbytes[sent], found.trace.nbytes[taken])


def test_receives_of_any_rank_and_any_tag_take_the_earliest() -> None:
    """Messages arrive at 3, 5 and 8; the first receive takes the first of any tag, the last what is left."""
    g = Graph()
    g.send(1, 0, 1000, tag=5)
    g.send(2, 0, 3000, tag=6)
    g.send(3, 0, 6000, tag=5)
    g.compute(0, 10, g.receive(0, ANY, 0, tag=5), cpu=1)  # 3
    g.compute(0, 20, g.receive(0, 3, 0, tag=ANY), cpu=2)  # 8
    g.compute(0, 30, g.receive(0, ANY, 0, tag=ANY), cpu=3)  # 5
    found, left = play_graph(g.build("made", 4), parse(LINKS, 4))
    trace = found.trace
    assert left == 0 and sorted(trace.end_s[trace.kind == Event.COMPUTE] / US) == pytest.approx([13, 28, 35])
    waits = trace.take(trace.kind == Event.WAIT)
    assert sorted(zip(waits.peer.tolist(), (waits.end_s / US).round(6).tolist(), strict=True)) == [
        (1, 3),
        (2, 5),
        (3, 8),
    ]
    assert len(trace.messages()[0]) == 3
    late = Graph()
    for rank, nbytes in ((1, 3000), (2, 1000)):
        late.send(rank, 0, nbytes)
    begin = late.compute(0, 50)
    late.compute(0, 10, late.receive(0, ANY, 0, begin), cpu=1)
    late.receive(0, 1, 0, late.receive(0, ANY, 0, begin))
    with pytest.raises(StuckError, match="rank 0 waits for a message of rank 1 with tag 0, which never comes"):
        late.micros(3)


@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 2), st.integers(-1, 1)), max_size=30))
def test_matching_is_that_of_lists_searched_from_the_start(steps: list[tuple[bool, int, int]]) -> None:
    matching = Matching(wild=True)
    posted, arrived = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    for number, (is_receive, source, tag) in enumerate(steps):
        if is_receive:
            fits = [k for k, s, t in arrived if source in (ANY, s) and tag in (ANY, t)]
            assert matching.post(number, (source, 0, tag)) == (fits[0] if fits else None)
            arrived = [m for m in arrived if not fits or m[0] != fits[0]]
            posted += [] if fits else [(number, source, tag)]
        else:
            source, tag = max(source, 0), max(tag, 0)
            fits = [k for k, s, t in posted if s in (ANY, source) and t in (ANY, tag)]
            assert matching.arrive(number, (source, 0, tag)) == (fits[0] if fits else None)
            posted = [r for r in posted if not fits or r[0] != fits[0]]
            arrived += [] if fits else [(number, source, tag)]
        assert matching.waiting == len(arrived) and matching.receives() == [r[0] for r in posted]


def test_a_message_without_a_route() -> None:
    g = Graph()
    g.send(0, 1, 8)
    down = Conditions(links={(0, 1): 0.0})
    found, left = play_graph(g.build("made", 2), parse(LINKS, 2), conditions=down)
    assert left == 1 and len(found.trace) == 0
    g.receive(1, 0, 8)
    with pytest.raises(StuckError, match="rank 0's message to rank 1 has no route"):
        g.micros(2, conditions=down)


def test_a_message_to_oneself_and_one_that_nobody_receives() -> None:
    g = Graph()
    g.send(0, 0, 100)
    g.receive(0, 0, 100)
    g.send(0, 1, 1000)
    found, left = play_graph(g.build("made", 2), parse(LINKS, 2))
    assert left == 1 and found.time_s == pytest.approx(3 * US)
    assert found.link_nbytes.sum() == 1000


def test_conditions() -> None:
    g = Graph()
    g.send(0, 1, 1000, g.compute(0, 10))
    g.receive(1, 0, 1000)
    assert g.micros(2, conditions=Conditions(delay_s={0: 5 * US})) == pytest.approx(18)
    assert g.micros(2, conditions=Conditions(slowdown={0: 2.0})) == pytest.approx(23)
    assert g.micros(2, conditions=Conditions(links={(0, 1): 0.5})) == pytest.approx(14)


@pytest.mark.parametrize(
    ("circle", "words"),
    [
        ([], "rank 1 waits for a message of rank 0 with tag 4, which never comes"),
        ([(1, 1)], "rank 0 has an operation that waits for itself"),
        ([(1, 2), (2, 1)], "rank 0 has operations that wait for each other in a circle; 2 of them"),
        ([(0, 1), (1, 2), (2, 3), (3, 1)], "rank 0 has operations that wait for each other in a circle; 3 of them"),
        ([(0, 1), (1, 2), (2, 3)], "rank 1 waits for a message of rank 0 with tag 4, which never comes"),
        ([(3, 4)], "rank 1 waits for a message of rank 0 with tag 4, which never comes"),
    ],
)
def test_a_circle_is_the_cause_of_a_message_that_never_comes(circle: list[tuple[int, int]], words: str) -> None:
    """Operations 0 to 3 are rank 0's; the receive is rank 1's, and comes from none of them."""
    g = Graph()
    for _ in range(4):
        g.compute(0, 1)
    g.receive(1, 0, 8, tag=4)
    for after, before in circle:
        g.depend(after, before)
    with pytest.raises(StuckError, match=words):
        g.micros(2)


def test_graphs_that_get_stuck_are_one_line() -> None:
    g = Graph()
    g.receive(1, 0, 8, tag=4)
    with pytest.raises(StuckError, match="rank 1 waits for a message of rank 0 with tag 4, which never comes"):
        g.micros(2)
    g = Graph()
    a, b = g.compute(0, 1), g.compute(0, 1)
    g.depend(a, b), g.depend(b, a)
    with pytest.raises(StuckError, match="rank 0 has operations that wait for each other in a circle; 2 of them"):
        g.micros(1)
    with pytest.raises(ValueError, match="made is for 3 ranks; expected at most the 2"):
        play_graph(g.build("made", 3), parse(LINKS, 2))


@pytest.mark.timeout(60)
def test_many_operations_of_one_processor_take_linear_time() -> None:
    g = Graph()
    for _ in range(100_000):
        g.compute(0, 1)
    assert g.micros(1) == pytest.approx(100_000)


CASES = [
    ("ring", "all_reduce", 8, {}),
    ("double_tree", "all_reduce", 7, {}),
    ("halving_doubling", "all_reduce", 6, {}),
    ("binomial", "broadcast", 9, {}),
    ("bruck", "all_gather", 5, {}),
    ("pairwise", "all_to_all", 4, {}),
    ("two_shot", "all_reduce", 4, {}),
    ("chain", "scan", 5, {}),
]
TOPOLOGIES = [
    "cluster:hosts=2,nics=1,message=0.2us,copy=9GB/s",
    LINKS,
    WORK,
    "switch:latency=1us,bandwidth=10GB/s,message=0.3us",
    "torus:dims=2x2,copy=8GB/s,reduce=3GB/s",
]


def same_as(graph: OperationGraph, job: Job, topology: Topology, rel: float) -> None:
    """The graph takes the job's time, and moves its bytes over the same links."""
    expected = play([job], topology)
    found, left = play_graph(graph, topology)
    assert left == 0
    assert found.time_s == pytest.approx(expected.time_s, rel=rel, abs=1e-15)
    assert found.link_nbytes.tolist() == expected.link_nbytes.tolist()


@pytest.mark.parametrize("spec", TOPOLOGIES)
@pytest.mark.parametrize(("algorithm", "collective", "ranks", "options"), CASES)
@pytest.mark.parametrize("nbytes", [1 << 20, 4099])
def test_schedules_take_their_own_time_as_files(
    algorithm: str, collective: str, ranks: int, options: dict[str, int], spec: str, nbytes: int, tmp_path: Path
) -> None:
    ranks = 4 if "dims" in spec else ranks + ranks % 2 if "hosts" in spec else ranks
    topology = parse(spec, ranks)
    schedule = build(algorithm, collective, ranks, 1 if collective == "broadcast" else None, **options)
    job = Job(schedule, nbytes)
    graph = as_operations(job, topology)
    same_as(graph, job, topology, 1e-9)
    goal.write(tmp_path / "it.goal", graph)
    steps = graph.count(OperationKind.COMPUTE)
    same_as(load(tmp_path / "it.goal"), job, topology, 1e-9 + 0.5e-9 * steps / play([job], topology).time_s)
    same_as(load(chakra.write(tmp_path / "it", graph)[0]), job, topology, 1e-9)


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_every_algorithm_can_be_written(algorithm: str, collective: str, tmp_path: Path) -> None:
    job, topology = Job(build(algorithm, collective, 4), 1 << 14), parse(WORK, 4)
    same_as(load(chakra.write(tmp_path / "it", as_operations(job, topology))[0]), job, topology, 1e-9)


def test_hosts_whose_links_serve_first_come_first_served(tmp_path: Path) -> None:
    memory = SharedMemory(4, 8, 1 << 17)
    topology = replace(over_hosts.topology(Hosts((0, 0, 1, 1), memory), 1 << 18), away_message_s=6e-6)
    assert topology.fifo_between_hosts
    for algorithm in ("ring", "two_shot", "double_tree"):
        job = Job(build(algorithm, "all_reduce", 4), 1 << 18)
        same_as(load(chakra.write(tmp_path / algorithm, as_operations(job, topology))[0]), job, topology, 1e-9)


def test_a_file_of_threads_takes_its_own_time_too(tmp_path: Path) -> None:
    """MSCCL XML of two thread blocks a GPU that wait for each other."""
    gpus = [
        [
            (1 - r, -1, [f"s i{1 - r} i{1 - r}", f"s i{r} i{r} after 1.0"]),
            (-1, 1 - r, [f"rrc i{r} i{r}", f"r i{1 - r} i{1 - r} after 0.0"]),
        ]
        for r in (0, 1)
    ]
    imported = load_schedule(write(tmp_path, algo(gpus, 2)))
    assert len(imported.programs[0].threads) > 1
    topology = parse(WORK, 2)
    job = Job(imported.programs, 1 << 20)
    graph = as_operations(job, topology)
    same_as(graph, job, topology, 1e-9)
    same_as(load(chakra.write(tmp_path / "it", graph)[0]), job, topology, 1e-9)


def test_threads_that_one_mark_lets_go_send_in_their_order(data_folder: Path) -> None:
    """Messages of thread blocks that begin at one moment wait for one link."""
    programs = load_schedule(data_folder / "msccl_xml/lyd_allreduce_4_nomial_tree_h_Simple_gpu64_ins1.xml").programs
    topology = parse("switch:latency=2us,bandwidth=25GB/s", len(programs))
    job = Job(programs, 1 << 20)
    same_as(as_operations(job, topology), job, topology, 1e-9)


def test_memory_of_peers_has_no_receives() -> None:
    put = Instruction(Kind.COPY, (Operand(Space.OUTPUT, 0, 0, 1, 1),), (Operand(Space.INPUT, 0, 0),))
    programs = [Program("put", "all_reduce", rank, 2, 1, ((put,) if rank == 0 else (),)) for rank in (0, 1)]
    with pytest.raises(ValueError, match="put touches its peers' memory directly"):
        as_operations(Job(programs, 8), parse(LINKS, 2))


@given(st.data())
def test_a_collective_takes_its_schedules_time(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, 6))
    algorithm, collective = data.draw(
        st.sampled_from([("ring", "all_reduce"), ("ring", "all_gather"), ("bruck", "all_gather")])
    )
    schedule = build(algorithm, collective, ranks)
    nbytes, topology = data.draw(st.integers(0, 1 << 20)), parse(WORK, ranks)
    g = Graph()
    begin = [g.compute(rank, 3) for rank in range(ranks)]
    for rank in range(ranks):
        row = g.add(OperationKind.COLLECTIVE, rank, tag=0)
        g.depend(row, begin[rank])
        g.compute(rank, 4, row)
    members = tuple(data.draw(st.permutations(range(ranks))))
    call = CollectiveCall(collective, members, nbytes)
    graph = expand(g.build("made", ranks, [call]), [schedule], topology)
    found, left = play_graph(graph, topology)
    alone_s = play(schedule, topology, nbytes).time_s
    assert left == 0 and 3 * US <= found.time_s <= alone_s + 7 * US + 1e-12
    if ranks > 1 and members == tuple(range(ranks)):
        ends_s = play(schedule, topology, nbytes).trace.end_s.max()
        assert found.time_s == pytest.approx(ends_s + 7 * US, rel=1e-9)


def test_collectives_at_once_have_messages_of_their_own() -> None:
    """Ranks begin two collectives in different orders; each receive takes the message of its own."""
    g, topology = Graph(), parse(LINKS, 2)
    calls = [CollectiveCall("all_reduce", (0, 1), 1000), CollectiveCall("all_reduce", (1, 0), 2000)]
    for rank, order in ((0, (0, 1)), (1, (1, 0))):
        for number in order:
            g.add(OperationKind.COLLECTIVE, rank, tag=number)
    schedule = build("ring", "all_reduce", 2)
    graph = g.build("made", 2, calls)
    with pytest.raises(ValueError, match="made has collectives; expected them expanded"):
        play_graph(graph, topology)
    found, left = play_graph(expand(graph, [schedule] * 2, topology), topology)
    assert left == 0 and found.link_nbytes.tolist() == [3000, 3000]
    sent, taken = found.trace.messages()
    assert found.trace.nbytes[sent].tolist() == found.trace.nbytes[taken].tolist() and len(sent) == 8
    assert found.time_s >= play(schedule, topology, 2000).time_s


def test_an_expansion_without_end_is_refused() -> None:
    g = Graph()
    g.add(OperationKind.COLLECTIVE, 0, tag=0)
    call = CollectiveCall("all_reduce", (0,), 8)
    with pytest.raises(ValueError, match="collective 0, all_reduce over 1 ranks by ring: expanded there are more than"):
        expand(g.build("made", 1, [call]), [build("ring", "all_reduce", 1200)], parse(LINKS, 1))
