"""The interpreter of csrc/device, compiled for a GPU at run time by NVRTC, for one element type and operation each."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ringtree.files.replacing import renaming
from ringtree.ir.digest import sha256
from ringtree.runtime.engines.device.element_types import DeviceTypes
from ringtree.runtime.engines.engine import native_module

REMEDY = "pip install '.[cuda]' in ringtree's folder"

_NO_LIBRARY = {
    "stdint.h": "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; "
    "typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned uint32_t; typedef long long int64_t; "
    "typedef unsigned long long uint64_t;",
    "string.h": "",
}
"""The headers of C's library, of which there is none on a device."""
_ROOT = "device/cuda.h"


def nvrtc() -> Any:
    """cuda-bindings' NVRTC. ImportError with the remedy where it is not installed."""
    try:
        from cuda.bindings import nvrtc as found
    except ImportError as error:
        raise ImportError(f"arrays in device memory need cuda-bindings ({error}): {REMEDY}") from None
    return found


@lru_cache(maxsize=256)
def compiled(types: DeviceTypes | None, capability: tuple[int, int]) -> bytes:
    """The machine code for GPUs of that compute capability; `types` None: for programs that reduce nothing. Cost: about
    a second, once a machine: it is kept in the user's cache. RuntimeError with the compiler's output where it fails."""
    library = nvrtc()
    sources = native_module().device_sources() | _NO_LIBRARY
    version = library.nvrtcVersion()[1:]
    key = sha256(repr((sorted(sources.items()), types, capability, version)).encode()).hexdigest()[:32]
    kept = _folder() / f"{key}.cubin"
    with suppress(OSError):
        return kept.read_bytes()
    code = _compiled(library, sources, types, capability)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with renaming(kept) as file:
            file.write(code)
    return code


def _folder() -> Path:
    """The folder of compiled programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ringtree", "device")


def _compiled(library: Any, sources: dict[str, str], types: DeviceTypes | None, capability: tuple[int, int]) -> bytes:
    main = sources.pop(_ROOT)
    names, texts = [name.encode() for name in sources], [text.encode() for text in sources.values()]
    program = _checked(library, library.nvrtcCreateProgram(main.encode(), _ROOT.encode(), len(names), texts, names))
    options = [
        f"--gpu-architecture=sm_{capability[0]}{capability[1]}",
        "--std=c++17",
        "--device-as-default-execution-space",
        "--fmad=false",  # the same bits as on the host
        *(types.options if types else ()),
    ]
    (result,) = library.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(result):
        log = b" " * int(_checked(library, library.nvrtcGetProgramLogSize(program)))
        library.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"NVRTC cannot compile the device program: {log.decode(errors='replace').strip()}")
    code = b" " * int(_checked(library, library.nvrtcGetCUBINSize(program)))
    library.nvrtcGetCUBIN(program, code)
    return code


def _checked(library: Any, answer: tuple[Any, ...]) -> Any:
    if int(answer[0]):
        raise RuntimeError(f"NVRTC: {answer[0].name}")
    return answer[1]
