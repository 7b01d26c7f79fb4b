"""The XML of MSCCL programs, as MSCCL's runtimes parse it: <algo> of <gpu> of <tb> (thread block) of <step>.
RCCL and TE-CCL write more: `maxcount` and `nthreadblocks`, which repeat what the steps show; `redop`, the reduction
that a file was made for; and <copy> in a <gpu>.

Expat is driven directly: a document type declaration, and with it every entity, is refused where it starts, and so is
each element outside its parent; so a hostile file costs no more than its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.parsers import expat

from ringtree.formats.imported import FormatError

RECEIVES = {"r", "rcs", "rrc", "rrs", "rrcs"}
SENDS = {"s", "rcs", "rrs", "rrcs"}
TYPES = {*RECEIVES, *SENDS, "cpy", "re", "nop"}

_NUMBERS = {
    "algo": {
        "nchannels",
        "nchunksperloop",
        "ngpus",
        "inplace",
        "outofplace",
        "minBytes",
        "maxBytes",
        "maxcount",
        "nthreadblocks",
    },
    "gpu": {"id", "i_chunks", "o_chunks", "s_chunks"},
    "tb": {"id", "send", "recv", "chan"},
    "step": {"s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep"},
    "copy": {"i_off", "o_off"},
}
_WORDS = {
    "algo": {"name", "proto", "coll", "redop"},
    "gpu": set[str](),
    "tb": set[str](),
    "step": {"type", "srcbuf", "dstbuf"},
    "copy": set[str](),
}
_OPTIONAL = {"outofplace", "minBytes", "maxBytes", "maxcount", "nthreadblocks", "redop", "nchannels", "proto", "hasdep"}
PROTOCOLS = ("Simple", "LL", "LL128")
"""NCCL's protocols, of which a file names one."""
_PARENT = {"algo": "", "gpu": "algo", "tb": "gpu", "copy": "gpu", "step": "tb"}


@dataclass(frozen=True, slots=True)
class InputCopy:
    """A <copy> of TE-CCL's files: a chunk of the input that is in the output before the thread blocks begin."""

    line: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class MscclStep:
    """`line`: its line in the file. `depends`: (thread block's id, step) that must finish before, or None.
    `announces`: whether its end is announced to those that wait."""

    line: int
    type: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    depends: tuple[int, int] | None
    announces: bool


@dataclass(slots=True)
class ThreadBlock:
    """`send`, `recv`: the one peer each way, -1 for none."""

    id: int
    send: int
    recv: int
    channel: int
    line: int
    steps: list[MscclStep] = field(default_factory=list)


@dataclass(slots=True)
class MscclGpu:
    """A gpu of the file: chunks of each buffer, its thread blocks, and copies before they begin."""

    id: int
    chunks: dict[str, int]  # by buffer: i, o, s
    blocks: list[ThreadBlock] = field(default_factory=list)
    copies: list[InputCopy] = field(default_factory=list)


@dataclass(slots=True)
class Algo:
    """The file: its attributes as they are, and its gpus in the order of their ids."""

    path: Path
    words: dict[str, str]
    numbers: dict[str, int]
    gpus: list[MscclGpu] = field(default_factory=list)

    def where(self, gpu: int, block: int = -1, step: int = -1) -> str:
        """`file: gpu 0 tb 1 step 2 (rrs), line 7`; `block` is a position in the gpu's blocks."""
        text = f"{self.path}: gpu {gpu}"
        if block >= 0:
            b = self.gpus[gpu].blocks[block]
            line = b.line
            text += f" tb {b.id}"
            if step >= 0:
                line = b.steps[step].line
                text += f" step {step} ({b.steps[step].type})"
            text += f", line {line}"
        return text


def read_algo(path: Path, data: bytes) -> Algo:
    """The file as written, each element checked by itself and with its neighbours; FormatError otherwise."""
    reader = _Reader(path)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as e:
        raise FormatError(f"{path}: line {e.lineno}: not well-formed XML: {expat.ErrorString(e.code)}") from None
    if reader.algo is None:
        raise FormatError(f"{path}: no <algo>")
    _check(reader.algo)
    return reader.algo


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.algo: Algo | None = None
        self.open: list[str] = [""]
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _: self.open.pop()
        self.parser.CharacterDataHandler = self._text

    def refuse(self, problem: str) -> FormatError:
        return FormatError(f"{self.path}: line {self.parser.CurrentLineNumber}: {problem}")

    def _doctype(self, *_: object) -> None:
        raise self.refuse("has a document type declaration; expected none in an MSCCL program")

    def _text(self, text: str) -> None:
        if text.strip():
            raise self.refuse(f"text {text.strip()[:20]!r}; expected elements only")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "op":
            raise self.refuse("<op>: this newer syntax has no target for an rcs; expected <step>")
        if _PARENT.get(tag) != self.open[-1] or (tag == "algo" and self.algo is not None):
            inside = f"inside <{self.open[-1]}>" if self.open[-1] else "here"
            expected = next((f"<{t}>" for t, parent in _PARENT.items() if parent == self.open[-1]), "nothing")
            raise self.refuse(f"<{tag[:20]}> {inside}; expected {expected}")
        self.open.append(tag)
        words, numbers = self._attributes(tag, attributes)
        if tag == "algo":
            self.algo = Algo(self.path, words, numbers)
            return
        assert self.algo is not None
        gpus = self.algo.gpus
        line = self.parser.CurrentLineNumber
        if tag == "gpu":
            gpus.append(MscclGpu(numbers["id"], {b: numbers[f"{b}_chunks"] for b in "ios"}))
        elif tag == "tb":
            gpus[-1].blocks.append(ThreadBlock(numbers["id"], numbers["send"], numbers["recv"], numbers["chan"], line))
        elif tag == "copy":
            gpus[-1].copies.append(InputCopy(line, numbers["i_off"], numbers["o_off"]))
        else:
            self._step(gpus[-1].blocks[-1], words, numbers, line)

    def _step(self, block: ThreadBlock, words: dict[str, str], numbers: dict[str, int], line: int) -> None:
        if numbers["s"] != len(block.steps):
            raise self.refuse(f"step {numbers['s']} of tb {block.id}; expected step {len(block.steps)}")
        if words["type"] not in TYPES:
            raise self.refuse(f"step type {words['type'][:20]!r}; expected one of {', '.join(sorted(TYPES))}")
        for key in ("srcbuf", "dstbuf"):
            if words[key] not in ("i", "o", "s"):
                raise self.refuse(f"{key} {words[key][:20]!r}; expected i, o or s")
        if numbers.get("hasdep", 0) not in (0, 1):
            raise self.refuse(f"hasdep={numbers['hasdep']}; expected 0 or 1")
        depends = None if numbers["depid"] == -1 else (numbers["depid"], numbers["deps"])
        source, target = (words["srcbuf"], numbers["srcoff"]), (words["dstbuf"], numbers["dstoff"])
        announces = words["type"] != "nop" and numbers.get("hasdep", 1) == 1
        block.steps.append(MscclStep(line, words["type"], source, target, numbers["cnt"], depends, announces))

    def _attributes(self, tag: str, attributes: dict[str, str]) -> tuple[dict[str, str], dict[str, int]]:
        words, numbers = _WORDS[tag], _NUMBERS[tag]
        for name in attributes:
            if name not in words and name not in numbers:
                raise self.refuse(
                    f"<{tag}> has an attribute {name[:20]!r}; known are {', '.join(sorted(words | numbers))}"
                )
        for name in sorted((words | numbers) - _OPTIONAL):
            if name not in attributes:
                raise self.refuse(f"<{tag}> lacks the attribute {name}")
        found = {}
        for name in (name for name in attributes if name in numbers):
            text = attributes[name].strip()
            if not re.fullmatch(r"-?[0-9]{1,18}", text):
                raise self.refuse(f"<{tag}> {name}={attributes[name][:20]!r}; expected a number")
            found[name] = int(text)
        return {name: text for name, text in attributes.items() if name in words}, found


def _check(algo: Algo) -> None:
    """Checks the elements' relations: ids, peers, channels, dependences."""
    n = algo.numbers["ngpus"]
    algo.gpus.sort(key=lambda g: g.id)
    if n < 1 or n != len(algo.gpus) or [g.id for g in algo.gpus] != list(range(n)):
        raise FormatError(
            f"{algo.path}: ngpus is {n}, but its gpus are {_few([g.id for g in algo.gpus])}; expected 0..{n - 1}"
        )
    _check_runtime(algo)
    for gpu in algo.gpus:
        ids = [b.id for b in gpu.blocks]
        if sorted(ids) != list(range(len(ids))) and min(ids) >= 0:
            raise FormatError(f"{algo.where(gpu.id)}: tb ids {_few(ids)}; expected 0..{len(ids) - 1}, each once")
        lanes: dict[tuple[str, int, int], int] = {}
        for at, block in enumerate(gpu.blocks):
            _check_numbers(algo.where(gpu.id, at), block)
            for way, peer in (("send", block.send), ("recv", block.recv)):
                if peer != -1 and (peer == gpu.id or not 0 <= peer < n):
                    raise FormatError(
                        f"{algo.where(gpu.id, at)}: {way}={peer}; expected another gpu of 0..{n - 1}, or -1"
                    )
                if peer != -1 and lanes.setdefault((way, peer, block.channel), at) != at:
                    other = gpu.blocks[lanes[way, peer, block.channel]].id
                    raise FormatError(
                        f"{algo.where(gpu.id, at)}: {way}={peer} on channel {block.channel}, as tb {other} has; "
                        "expected one thread block for each peer and channel"
                    )
            _check_steps(algo, gpu, at, dict(zip(ids, gpu.blocks, strict=True)))
        _settle_waits(algo, gpu)


def _check_numbers(where: str, block: ThreadBlock) -> None:
    """Checks what a runtime indexes its tables by. The first one took channel -1 for a thread block without peers."""
    if block.id < 0:
        raise FormatError(f"{where}: its id is negative; expected 0 or more")
    if block.channel < 0 and (block.channel, block.send, block.recv) != (-1, -1, -1):
        raise FormatError(f"{where}: chan={block.channel}; expected 0 or more, or -1 for a thread block without peers")


def _check_runtime(algo: Algo) -> None:
    """Checks the attributes by which a runtime loads the file, where it has them."""
    fewest, most = algo.numbers.get("minBytes", 0), algo.numbers.get("maxBytes", 0)
    if most and fewest > most:
        raise FormatError(
            f"{algo.path}: no call has minBytes {fewest} to maxBytes {most}; expected minBytes up to maxBytes, or "
            "maxBytes 0 for no limit"
        )
    protocol, channels = algo.words.get("proto", PROTOCOLS[0]), algo.numbers.get("nchannels")
    if protocol.lower() not in map(str.lower, PROTOCOLS):
        raise FormatError(f"{algo.path}: proto is {protocol[:20]!r}; expected one of {', '.join(PROTOCOLS)}")
    highest = max((b.channel for gpu in algo.gpus for b in gpu.blocks), default=0)
    if channels is not None and channels <= max(highest, 0):
        raise FormatError(
            f"{algo.path}: nchannels is {channels}, but a thread block has channel {highest}; "
            f"expected {highest + 1} or more"
        )


def _check_steps(algo: Algo, gpu: MscclGpu, at: int, blocks: dict[int, ThreadBlock]) -> None:
    block = gpu.blocks[at]
    for number, step in enumerate(block.steps):
        where = algo.where(gpu.id, at, number)
        for needs, way, peer in ((SENDS, "send", block.send), (RECEIVES, "recv", block.recv)):
            if step.type in needs and peer == -1:
                raise FormatError(f"{where}: its thread block has {way}=-1; expected a gpu")
        if step.count < (step.type != "nop"):
            raise FormatError(f"{where}: cnt={step.count}; expected at least 1")
        if step.depends is not None:
            other, before = step.depends
            if other not in blocks or not 0 <= before < len(blocks[other].steps):
                raise FormatError(f"{where}: depends on tb {other} step {before}, which its gpu does not have")


def _settle_waits(algo: Algo, gpu: MscclGpu) -> None:
    """Has each step wait for the one whose end is announced to it (RCCL, msccl_parser.cc and msccl_kernel_impl.h): a
    thread block counts its steps, those without hasdep=1 and nops in silence."""
    blocks = {block.id: block for block in gpu.blocks}
    last = dict.fromkeys(blocks, -1)  # the last step that another waits for
    for at, block in enumerate(gpu.blocks):
        waits_before = False
        for number, step in enumerate(block.steps):
            if step.type != "nop" and waits_before and step.depends is None:
                raise FormatError(
                    f"{algo.where(gpu.id, at, number)}: waits for nothing behind a nop that does; expected the last of "
                    "the waits in it, as runtimes refuse others"
                )
            waits_before = step.type == "nop" and (waits_before or step.depends is not None)
            if step.depends is None:
                continue
            other, before = step.depends
            steps = blocks[other].steps
            announced = next((k for k in range(before, len(steps)) if steps[k].announces), -1)
            if announced < 0:
                raise FormatError(
                    f"{algo.where(gpu.id, at, number)}: deadlock: waits for tb {other} step {before}, whose end nobody "
                    "announces; expected hasdep=1 there or in a later step of that tb, which is no nop"
                )
            block.steps[number] = replace(step, depends=(other, announced))
            last[other] = max(last[other], announced)
    for at, block in enumerate(gpu.blocks):
        for number, step in enumerate(block.steps[: max(last[block.id], 0)]):
            if step.type == "nop" and step.depends is None:
                raise FormatError(
                    f"{algo.where(gpu.id, at, number)}: waits for nothing, so runtimes leave it out and number the "
                    f"steps after it one lower than those that wait for step {last[block.id]}; expected no such nop"
                )


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
