"""The cost of an algorithm, as data beside its functions: expressions that are evaluated, and printed as written.

    @cost(2 * (n - 1), 2 * (n - 1) / n * S)
    def all_reduce(ranks: int) -> Schedule: ...

are the rounds, and the bytes sent by the busiest rank, for n > 1 ranks and S bytes in the whole vector. A
`Term` of an algorithm's own has a name, a value for n ranks and a meaning. Tests hold the expressions to the schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, gt, lt, mul, sub, truediv
from typing import NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_ATOM = 3
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
    "<": lt,
    ">": gt,
}


class Expression:
    """A number that depends on n and S, never changed once it is made. `str` gives the formula, whose value
    in Python is that of `evaluate`."""

    __slots__ = ()

    @property
    def precedence(self) -> int:
        """The binding strength of the outermost operation."""
        return _ATOM

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """The value for `ranks` and `nbytes`; whole numbers stay whole."""
        raise NotImplementedError

    def parts(self) -> tuple[Expression, ...]:
        """The operands."""
        return ()

    def __add__(self, other: Expression | int) -> Expression:
        return BinaryOperation("+", self, as_expression(other))

    def __radd__(self, other: int) -> Expression:
        return BinaryOperation("+", as_expression(other), self)

    def __sub__(self, other: Expression | int) -> Expression:
        return BinaryOperation("-", self, as_expression(other))

    def __rsub__(self, other: int) -> Expression:
        return BinaryOperation("-", as_expression(other), self)

    def __mul__(self, other: Expression | int) -> Expression:
        return BinaryOperation("*", self, as_expression(other))

    def __rmul__(self, other: int) -> Expression:
        return BinaryOperation("*", as_expression(other), self)

    def __truediv__(self, other: Expression | int) -> Expression:
        return BinaryOperation("/", self, as_expression(other))

    def __rtruediv__(self, other: int) -> Expression:
        return BinaryOperation("/", as_expression(other), self)

    def __lt__(self, other: Expression | int) -> Expression:
        """1 where it is less, else 0."""
        return BinaryOperation("<", self, as_expression(other))

    def __gt__(self, other: Expression | int) -> Expression:
        """1 where it is greater, else 0."""
        return BinaryOperation(">", self, as_expression(other))

    def __repr__(self) -> str:
        return str(self)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has a value only for a number of ranks; expected minimum() instead of min() or if")


class Number(Expression):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """Returns the number."""
        return self.value

    def __str__(self) -> str:
        return str(self.value)


class Term(Expression):
    """A named number. `of`: its value for n ranks; `meaning`: in words, where not all algorithms share it."""

    __slots__ = ("meaning", "name", "of")

    def __init__(self, name: str, of: Callable[[int], int], meaning: str = "") -> None:
        self.name, self.of, self.meaning = name, of, meaning

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """Returns the term's value for `ranks`."""
        return self.of(ranks)

    def __str__(self) -> str:
        return self.name


class _Bytes(Expression):
    __slots__ = ()

    def evaluate(self, ranks: int, nbytes: float) -> float:
        return nbytes

    def __str__(self) -> str:
        return "S"


class BinaryOperation(Expression):
    """Two expressions and their operator: one of + - * / < >."""

    __slots__ = ("left", "right", "sign")

    def __init__(self, sign: str, left: Expression, right: Expression) -> None:
        self.sign, self.left, self.right = sign, left, right

    @property
    def precedence(self) -> int:
        """Returns the binding strength of the operator, for brackets."""
        return _PRECEDENCE.get(self.sign, _ATOM)  # comparisons are always in brackets

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """Returns the value for `ranks` and `nbytes`; a comparison is 1 or 0."""
        return _OPERATIONS[self.sign](self.left.evaluate(ranks, nbytes), self.right.evaluate(ranks, nbytes))

    def parts(self) -> tuple[Expression, ...]:
        """Returns the left and the right operand."""
        return self.left, self.right

    def __str__(self) -> str:
        if self.sign not in _PRECEDENCE:
            return f"({self.left}{self.sign}{self.right})"
        left = f"({self.left})" if self.left.precedence < self.precedence else str(self.left)
        right = f"({self.right})" if self.right.precedence <= self.precedence else str(self.right)
        return f"{left}{self.sign}{right}"


class FunctionCall(Expression):
    """A function of whole numbers."""

    __slots__ = ("arguments", "function", "name")

    def __init__(self, name: str, function: Callable[..., float], *arguments: Expression) -> None:
        self.name, self.function, self.arguments = name, function, arguments

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """Returns the function of the arguments' values."""
        return self.function(*(a.evaluate(ranks, nbytes) for a in self.arguments))

    def parts(self) -> tuple[Expression, ...]:
        """Returns the arguments."""
        return self.arguments

    def __str__(self) -> str:
        return f"{self.name}({','.join(map(str, self.arguments))})"


class AtMost:
    """An upper bound."""

    __slots__ = ("bound",)

    def __init__(self, bound: Expression) -> None:
        self.bound = bound

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """Returns the value of the bound."""
        return self.bound.evaluate(ranks, nbytes)

    def parts(self) -> tuple[Expression, ...]:
        """Returns the bound alone."""
        return (self.bound,)

    def __str__(self) -> str:
        return f"at most {self.bound}"

    __repr__ = __str__


Formula = Expression | AtMost


def as_expression(value: Expression | int) -> Expression:
    """Returns the value as an expression; TypeError for anything but an int or an expression."""
    if isinstance(value, Expression):
        return value
    if type(value) is not int:
        raise TypeError(f"a cost: got {value!r}; expected a whole number or an expression in n and S")
    return Number(value)


def _formula(value: Formula | int) -> Formula:
    return value if isinstance(value, AtMost) else as_expression(value)


def lg(x: Expression | int) -> Expression:
    """The logarithm to base 2, rounded up."""
    return FunctionCall("lg", _lg, as_expression(x))


def minimum(a: Expression | int, b: Expression | int) -> Expression:
    """The lesser of the two."""
    return FunctionCall("min", min, as_expression(a), as_expression(b))


def at_most(bound: Expression | int) -> AtMost:
    """An upper bound of a cost whose exact formula is no shorter."""
    return AtMost(as_expression(bound))


def power_of_two(x: int) -> int:
    """The largest power of two that is at most x."""
    return 1 << (x.bit_length() - 1)


def _lg(x: int) -> int:
    return (x - 1).bit_length()


n = Term("n", lambda ranks: ranks)
p = Term("p", power_of_two)
S = _Bytes()


class Cost(NamedTuple):
    """The cost of one collective for n > 1 ranks.

    `pipelines`: its rounds pass on one chunk after the other, so that cutting the chunks (transform.pipeline) makes
    the rounds overlap.
    """

    rounds: Formula
    sent: Formula
    pipelines: bool = False

    def evaluate(self, ranks: int, nbytes: float) -> tuple[float, float]:
        """(rounds, bytes sent by the busiest rank); upper bounds where the formula says "at most"."""
        return float(self.rounds.evaluate(ranks, nbytes)), float(self.sent.evaluate(ranks, nbytes))

    def terms(self) -> Iterator[Term]:
        """The terms with a meaning of their own in the formulas, some more than once."""
        left: list[Formula] = [self.rounds, self.sent]
        while left:
            formula = left.pop()
            if isinstance(formula, Term) and formula.meaning:
                yield formula
            left += formula.parts()


def cost(rounds: Formula | int, sent: Formula | int, *, pipelines: bool = False) -> Callable[[Function], Function]:
    """States the cost of the decorated function's schedules."""
    stated = Cost(_formula(rounds), _formula(sent), pipelines)

    def attach(function: Function) -> Function:
        function.cost = stated  # type: ignore[attr-defined]
        return function

    return attach
