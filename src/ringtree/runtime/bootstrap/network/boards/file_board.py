"""Rank 0 announces itself in a file that the hosts share: RINGTREE_ADDRESS=file:///path.

A rank takes a file that is its own user's and nobody else's to read, and of its own job where the launcher names the
job alike on all hosts; it then has to reach the server that the file names, and both prove the secret that is in it. So
what an earlier job has left is passed over, unless that job still waits for ranks, too. The file is removed when all
ranks have met.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from pathlib import Path

from ringtree.files.file_bytes import first_bytes
from ringtree.files.unfinished import create, unfinished_path
from ringtree.runtime.bootstrap.environment import ADDRESS
from ringtree.runtime.bootstrap.network.contact import Contact

MOST_BYTES = 1 << 16
READ_S = 0.05
BEGINS = b'{"job": '
"""The first bytes of what rank 0 writes, torn or whole."""


class FileBoard:
    """A Board. `path`: the file, or a folder that may have the files of several jobs. `job`: a text that all ranks
    share and no other job has; "" where there is none. `secret`: joined to the one in the file. `named`: the variable,
    or the argument, that names it."""

    given: Contact | None = None
    several = True

    def __init__(self, path: str | Path, job: str, secret: bytes, named: str = ADDRESS) -> None:
        self.where = f"{named}=file://{path}"
        self.secret = secret
        self._path, self._job, self._written = Path(path), hashlib.sha256(job.encode()).hexdigest() if job else "", b""

    def announce(self, contact: Contact) -> None:
        """Writes the file for this user alone, whole or not at all. RuntimeError where it cannot be written, or where
        something else is there than what rank 0 of a job has left, or an empty file."""
        self._check_free()
        self._written = json.dumps({"job": self._job, "contact": contact.text()}).encode()
        file = self._file()
        fresh = unfinished_path(file)
        try:
            fd = create(fresh, 0o600)
            with os.fdopen(fd, "wb") as made:
                made.write(self._written)
                made.flush()
                os.fsync(fd)
            os.replace(fresh, file)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            why = error.strerror if file.parent.is_dir() else f"there is no folder {file.parent}"
            raise RuntimeError(
                f"rank 0 cannot write {self.where} ({why}); expected a folder that is there and that it may write in"
            ) from None

    def _check_free(self) -> None:
        try:
            about = self._file().lstat()
            plain = stat.S_ISREG(about.st_mode)
            left = plain and (not about.st_size or first_bytes(self._file(), len(BEGINS)) == BEGINS)
        except FileNotFoundError:
            return
        except OSError:
            left = False
        if not left:
            raise RuntimeError(
                f"rank 0 does not write {self.where}: what is there is not what rank 0 of a job has left; expected a "
                "path where nothing is, or a folder"
            )

    def give_up(self, why: str) -> None:
        """Nothing: what is in the file may outlive the job."""

    def read(self, timeout_s: float) -> Contact | None:
        """The contact in the file as it is now. RuntimeError where others could have written or read it."""
        try:
            fd = os.open(self._file(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # waits for no pipe
        except OSError:
            time.sleep(min(timeout_s, READ_S))
            return None
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise RuntimeError(f"{self.where} is no plain file; expected one as rank 0 writes it")
            if about.st_uid != os.getuid() or about.st_mode & 0o077:
                raise RuntimeError(
                    f"{self.where} is a file of user {about.st_uid} with mode {about.st_mode & 0o777:o}; expected one "
                    f"of user {os.getuid()} with mode 600, as rank 0 writes it"
                )
            text = file.read(MOST_BYTES)
        try:
            fields = json.loads(text)
            return Contact.of(fields["contact"]) if fields["job"] == self._job else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def withdraw(self) -> None:
        """Removes the file, where it is still this job's."""
        with contextlib.suppress(OSError):
            if self._written and first_bytes(self._file(), MOST_BYTES) == self._written:
                self._file().unlink()

    def _file(self) -> Path:
        name = f"ringtree-{self._job[:16]}" if self._job else "ringtree"
        return self._path / name if self._path.is_dir() else self._path
