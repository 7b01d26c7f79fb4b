"""Info: texts by name, which programs hand to calls as hints. Ringtree reads none of them; what is set is kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ringtree.mpi.constants import MAX_INFO_KEY, MAX_INFO_VAL
from ringtree.mpi.errors import ERR_ARG, ERR_INFO, ERR_INFO_KEY, ERR_INFO_NOKEY, ERR_INFO_VALUE, Exception
from ringtree.mpi.missing import MpiObject

if TYPE_CHECKING:
    from typing_extensions import Self

Items = Mapping[str, str] | Iterable[tuple[str, str]] | None


class Info(MpiObject):
    """A dictionary of texts; `Info()` is INFO_NULL, which holds none and takes none: KeyError of a dictionary's calls,
    Exception of ERR_INFO of the others."""

    def __init__(self, info: Info | None = None) -> None:
        if not (info is None or isinstance(info, Info)):
            raise TypeError(f"got {type(info).__name__}; expected an Info")
        self._texts: dict[str, str] | None = None if info is None else info._texts

    @classmethod
    def Create(cls, items: Info | Items = None) -> Self:
        """An Info of these pairs."""
        made = cls()
        made._texts = {}
        made.update(() if items is None else items)
        return made

    @classmethod
    def Create_env(cls, args: Any = None) -> Self:
        """An Info of the program's command line and thread level, as INFO_ENV."""
        return cls.Create({"command": sys.argv[0] if sys.argv else "", "thread_level": "MPI_THREAD_MULTIPLE"})

    def Free(self) -> None:
        """Makes this INFO_NULL. Exception of ERR_INFO: for INFO_NULL and INFO_ENV."""
        self._own()
        if self is INFO_ENV:
            raise Exception(ERR_INFO, "INFO_ENV is not freed; expected an Info of Info.Create")
        self._texts = None

    def free(self) -> None:
        """Free of what is neither INFO_NULL nor INFO_ENV."""
        if self and self is not INFO_ENV:
            self._texts = None

    def Dup(self) -> Self:
        """A copy."""
        return type(self).Create(self._own())

    def Get(self, key: str) -> str | None:
        """The text of a name; None where there is none."""
        held = self._own()
        _check(key)
        return held.get(key)

    def Set(self, key: str, value: str) -> None:
        """Sets the text of a name."""
        held = self._own()
        _check(key, value)
        held[key] = value

    def Delete(self, key: str) -> None:
        """Removes a name; Exception of ERR_INFO_NOKEY where there is none."""
        held = self._own()
        _check(key)
        if held.pop(key, None) is None:
            raise Exception(ERR_INFO_NOKEY, f"an Info has no {key!r}")

    def Get_nkeys(self) -> int:
        """Number of names."""
        return len(self._own())

    def Get_nthkey(self, n: int) -> str:
        """The name at position n."""
        names = list(self._own())
        if not 0 <= n < len(names):
            raise Exception(ERR_ARG, f"no name {n}: expected one of {len(names)}, from 0")
        return names[n]

    def _own(self) -> dict[str, str]:
        """The texts for MPI's calls."""
        if self._texts is None:
            raise Exception(ERR_INFO, "INFO_NULL has no names and takes none; expected an Info of Info.Create")
        return self._texts

    def _held(self, key: str = "") -> dict[str, str]:
        """The texts for a dictionary's calls."""
        if self._texts is None:
            raise KeyError(f"INFO_NULL takes no names; expected an Info of Info.Create, for {key!r}")
        return self._texts

    def __bool__(self) -> bool:
        return self._texts is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Info) and self._texts is other._texts

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._texts or ())

    def __contains__(self, key: object) -> bool:
        return key in (self._texts or ())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> str:
        return self._held(key)[key]

    def __setitem__(self, key: str, value: str) -> None:
        held = self._held(key)
        _check(key, value)
        held[key] = value

    def __delitem__(self, key: str) -> None:
        del self._held(key)[key]

    def get(self, key: str, default: str | None = None) -> str | None:
        """The text of a name, or the default."""
        return (self._texts or {}).get(key, default)

    def keys(self) -> list[str]:
        """The names."""
        return list(self._texts or ())

    def values(self) -> list[str]:
        """The texts, in the order of the names."""
        return list((self._texts or {}).values())

    def items(self) -> list[tuple[str, str]]:
        """Names with their texts."""
        return list((self._texts or {}).items())

    def update(self, items: Info | Items = (), **more: str) -> None:
        """Sets all these names."""
        held = self._held()
        for key, value in {**dict(items or ()), **more}.items():
            _check(key, value)
            held[key] = value

    def pop(self, key: str, *default: str) -> str | None:
        """Removes a name and returns its text, or the default."""
        found: str | None = ({} if self._texts is None else self._texts).pop(key, *default)
        return found

    def popitem(self) -> tuple[str, str]:
        """Removes the last name and returns it with its text."""
        return self._held().popitem()

    def copy(self) -> Self:
        """A copy; INFO_NULL of INFO_NULL."""
        return self.Dup() if self else type(self)()

    def clear(self) -> None:
        """Removes all names."""
        if self._texts is not None:
            self._texts.clear()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self is INFO_NULL:
            return "INFO_NULL"
        if self is INFO_ENV:
            return "INFO_ENV"
        if not self:
            return Info, ()
        return (Info, (INFO_ENV,)) if self == INFO_ENV else (Info.Create, (dict(self.items()),))


def _check(*texts: str) -> None:
    """Raises what a name and its text that are none raise."""
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"an Info of {type(text).__name__}; expected texts")
    if not texts[0]:
        raise Exception(ERR_INFO_KEY, "an Info has no empty name; expected a text")
    for text, most, code in zip(texts, (MAX_INFO_KEY, MAX_INFO_VAL), (ERR_INFO_KEY, ERR_INFO_VALUE), strict=False):
        if (nbytes := len(text.encode())) > most:
            what = "name" if code == ERR_INFO_KEY else "text"
            raise Exception(code, f"a {what} of {nbytes} bytes in an Info; expected {most} at most")


INFO_NULL = Info()
INFO_ENV = Info.Create_env()


class Hinted:
    """A keeper of hints: a communicator, a window."""

    _hints: dict[str, str]

    def Set_info(self, info: Info) -> None:
        """Keeps these hints beside those set before, in this process."""
        self.__dict__["_hints"] = {**self.__dict__.get("_hints", {}), **dict(info.items())}

    def Get_info(self) -> Info:
        """A copy of the hints that were set."""
        return Info.Create(self.__dict__.get("_hints"))

    @property
    def info(self) -> Info:
        """A copy of the hints that were set."""
        return self.Get_info()

    @info.setter
    def info(self, info: Info) -> None:
        self.Set_info(info)
