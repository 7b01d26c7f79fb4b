"""`python filtered.py NAME,NAME… PROGRAM ARGUMENTS`: a program, and all it starts, for which system calls are refused.

The filter is a program of classic BPF, as a container's runtime installs. Numbers are those of x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

# What Docker's default profile (moby/moby, profiles/seccomp/default.json, as of 2023 and since) refuses a container
# without capabilities on x86-64. `clone3` is refused as if the kernel had none, so that libc takes `clone`.
DOCKER = {
    "ptrace": 101, "personality": 135, "uselib": 134, "ustat": 136, "sysfs": 139, "vhangup": 153,
    "pivot_root": 155, "_sysctl": 156, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
    "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "create_module": 174, "init_module": 175, "delete_module": 176, "quotactl": 179, "lookup_dcookie": 212,
    "clock_settime": 227, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "migrate_pages": 256, "unshare": 272, "move_pages": 279,
    "perf_event_open": 298, "fanotify_init": 300, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "set_mempolicy_home_node": 450,
}  # fmt: skip
OTHERS = {"memfd_create": 319, "pidfd_open": 434, "sched_setaffinity": 203}
"""Some that Docker allows, and stricter profiles or older kernels do not."""

AUDIT_ARCH_X86_64 = 0xC000003E
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def program(numbers: dict[int, int]) -> bytes:
    """The filter: by a call's number, the error it is refused with."""
    lines = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, AUDIT_ARCH_X86_64), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, 0)]
    for number, error in numbers.items():
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]
    return b"".join(struct.pack("HBBI", *line) for line in [*lines, (RETURN, 0, 0, ALLOW)])


def refuse(names: list[str]) -> None:
    """Refuses this process, and all that come from it, the calls of these names; "docker" stands for its list."""
    numbers = {}
    for name in names:
        chosen = DOCKER if name == "docker" else {name: {**DOCKER, **OTHERS}[name]}
        numbers |= {n: errno.ENOSYS if each == "clone3" else errno.EPERM for each, n in chosen.items()}
    code = program(numbers)
    memory = ctypes.create_string_buffer(code)
    filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(memory)))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0, 0)):
        if libc.prctl(*words) != 0:
            raise OSError(ctypes.get_errno(), "prctl", str(words[0]))


if __name__ == "__main__":
    refuse(sys.argv[1].split(","))
    os.execvp(sys.argv[2], sys.argv[2:])
