"""Reductions in exact arithmetic: fractions, rounded by hand where the engine rounds. It shares nothing with numpy,
ml_dtypes or the engines, and decides infinities, NaNs and the signs of zeros by the rules of IEEE 754."""

from __future__ import annotations

from fractions import Fraction
from functools import cache, reduce
from typing import Any, NamedTuple


class Format(NamedTuple):
    """A binary float: digits of the mantissa after the point, bits of the exponent, and whether it has infinities."""

    mantissa: int
    exponent: int
    infinities: bool = True

    @property
    def bias(self) -> int:
        """What is subtracted from the exponent's bits."""
        return (1 << self.exponent - 1) - 1

    @property
    def largest(self) -> int:
        """The bits of the largest number."""
        beyond = ((1 << self.exponent) - 1) << self.mantissa
        return beyond - 1 if self.infinities else beyond + (1 << self.mantissa) - 2


FORMATS = {
    "float16": Format(10, 5),
    "bfloat16": Format(7, 8),
    "float32": Format(23, 8),
    "float64": Format(52, 11),
    "float8_e4m3fn": Format(3, 4, infinities=False),
    "float8_e5m2": Format(2, 5),
}
SHORT = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


class Real(NamedTuple):
    """A number with the sign of a zero; an infinity or NaN where `special` says so."""

    negative: bool
    magnitude: Fraction = Fraction(0)
    special: str = ""

    @property
    def signed(self) -> Fraction:
        """The number; infinities lie beyond all others."""
        size = Fraction(1 << 2000) if self.special == "inf" else self.magnitude
        return -size if self.negative else size


NAN = Real(False, special="nan")


@cache
def decoded(bits: int, f: Format) -> Real:
    """The number that the bits mean."""
    width = f.mantissa + f.exponent
    negative, code = bool(bits >> width), bits & ((1 << width) - 1)
    if code > f.largest:
        return Real(negative, special="inf") if f.infinities and code == f.largest + 1 else NAN
    exponent, digits = code >> f.mantissa, code & ((1 << f.mantissa) - 1)
    scaled = digits + (1 << f.mantissa) if exponent else digits
    return Real(negative, scaled * Fraction(2) ** (max(exponent, 1) - f.bias - f.mantissa))


@cache
def encoded(x: Real, f: Format) -> int:
    """The bits of the nearest number of the format, of two the one whose last bit is 0; -1 for a NaN."""
    sign = int(x.negative) << (f.mantissa + f.exponent)
    if x.special == "nan":
        return -1
    if x.special == "inf":
        return sign | f.largest + 1 if f.infinities else -1
    if not x.magnitude:
        return sign
    n, d = x.magnitude.numerator, x.magnitude.denominator
    exponent = n.bit_length() - d.bit_length()
    exponent -= x.magnitude < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, 1 - f.bias) - f.mantissa)
    steps, rest = divmod(x.magnitude, step)
    steps += rest > step / 2 or (rest == step / 2 and steps % 2)
    code = int(steps) + ((max(exponent, 1 - f.bias) + f.bias - 1) << f.mantissa)
    if code > f.largest:
        return sign | f.largest + 1 if f.infinities else -1
    return sign | code


@cache
def rounded(x: Real, f: Format) -> Real:
    """The nearest number of the format."""
    bits = encoded(x, f)
    return NAN if bits < 0 else decoded(bits, f)


def add(a: Real, b: Real) -> Real:
    """The exact sum. Two zeros of unlike signs, and numbers that cancel, make +0."""
    if "nan" in (a.special, b.special) or (a.special == b.special == "inf" and a.negative != b.negative):
        return NAN
    if a.special or b.special:
        return a if a.special else b
    total = a.signed + b.signed
    return Real(total < 0 if total else a.negative and b.negative, abs(total))


def times(a: Real, b: Real) -> Real:
    """The exact product."""
    negative = a.negative != b.negative
    if "nan" in (a.special, b.special):
        return NAN
    if a.special or b.special:
        none = any(not x.special and not x.magnitude for x in (a, b))
        return NAN if none else Real(negative, special="inf")
    return Real(negative, a.magnitude * b.magnitude)


def greater(a: Real, b: Real) -> Real:
    """The greater one; a NaN is greater than all, and of equals the first is taken."""
    return a if a.special == "nan" or (b.special != "nan" and a.signed >= b.signed) else b


def lesser(a: Real, b: Real) -> Real:
    """The lesser one; a NaN is less than all, and of equals the first is taken."""
    return a if a.special == "nan" or (b.special != "nan" and a.signed <= b.signed) else b


def quotient(x: Real, by: int) -> Real:
    """The exact quotient by a number of ranks."""
    return x if x.special else x._replace(magnitude=x.magnitude / by)


STEPS = {"sum": add, "avg": add, "prod": times, "max": greater, "min": lesser}


def float_reduced(tree: Any, op: str, bits: list[int], label: str, ranks: int) -> int:
    """The bits of a reduction whose additions are `tree` (tests.verify.sums) over one element's bits by rank: short
    floats in float32, rounded to their type after each of its lists; -1 for a NaN."""
    f = FORMATS[label]
    wide = FORMATS["float32"] if label in SHORT else f

    def joined(part: Any) -> Real:
        if not isinstance(part, list):
            return decoded(bits[part], f)
        step = STEPS[op]
        return rounded(reduce(lambda a, b: rounded(step(a, b), wide), map(joined, part)), f)

    total = joined(tree)
    return encoded(rounded(quotient(total, ranks), wide) if op == "avg" else total, f)


def complex_reduced(tree: Any, op: str, parts: list[tuple[int, int]], label: str, ranks: int) -> tuple[int, int]:
    """The bits of both parts, of elements given as such."""
    f = FORMATS[label]

    def cut(x: Real) -> Real:
        return rounded(x, f)

    def product(a: tuple[Real, Real], b: tuple[Real, Real]) -> tuple[Real, Real]:
        (ar, ai), (br, bi) = a, b
        second = cut(times(ai, bi))
        minus = second if second.special == "nan" else second._replace(negative=not second.negative)
        return cut(add(cut(times(ar, br)), minus)), cut(add(cut(times(ar, bi)), cut(times(ai, br))))

    def total(a: tuple[Real, Real], b: tuple[Real, Real]) -> tuple[Real, Real]:
        return cut(add(a[0], b[0])), cut(add(a[1], b[1]))

    def joined(part: Any) -> tuple[Real, Real]:
        if not isinstance(part, list):
            return decoded(parts[part][0], f), decoded(parts[part][1], f)
        return reduce(product if op == "prod" else total, map(joined, part))

    re, im = (cut(quotient(x, ranks)) if op == "avg" else x for x in joined(tree))
    return encoded(re, f), encoded(im, f)


def whole_reduced(ranks: list[int], op: str, values: list[int], bits: int, signed: bool) -> int:
    """A reduction of whole numbers of `bits` bits, in any order of these ranks; what is too large wraps."""
    given = [values[r] for r in ranks]
    steps = {
        "sum": int.__add__, "avg": int.__add__, "prod": int.__mul__, "max": max, "min": min,
        "band": int.__and__, "bor": int.__or__, "bxor": int.__xor__,
    }  # fmt: skip
    total = reduce(steps[op], given) % (1 << bits)
    total -= (1 << bits) if signed and total >> bits - 1 else 0
    return abs(total) // len(ranks) * (-1 if total < 0 else 1) if op == "avg" else total


def truth_reduced(ranks: list[int], op: str, values: list[bool]) -> bool:
    """A logical reduction."""
    true = sum(values[r] for r in ranks)
    return {"land": true == len(ranks), "lor": true > 0, "lxor": true % 2 == 1}[op]
