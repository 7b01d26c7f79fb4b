"""The interpreter of csrc/device, compiled for a GPU at run time by NVRTC, for one element type and operation each."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ringtree.runtime.engines.device.element_types import DeviceTypes
from ringtree.runtime.engines.engine import native_module

REMEDY = "pip install ringtree[cuda]"

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
    half a second. RuntimeError with the compiler's output where it fails."""
    library = nvrtc()
    sources = native_module().device_sources() | _NO_LIBRARY
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
