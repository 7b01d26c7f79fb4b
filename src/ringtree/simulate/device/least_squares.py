"""Nonlinear least squares within bounds, by Levenberg's and Marquardt's method (Marquardt, J. SIAM 11(2), 1963)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ENOUGH = 1e-4
"""The relative gain of a step below which the search ends."""
MOST_DAMPING = 1e6


@dataclass(frozen=True, slots=True)
class Minimum:
    """The parameters found, [parameters], their residuals, [rows], and the residuals' derivatives, [rows,
    parameters]."""

    parameters: Floats
    residuals: Floats
    slopes: Floats

    @property
    def cost(self) -> float:
        """The sum of squares."""
        return float(self.residuals @ self.residuals)

    def errors(self) -> Floats:
        """The standard error of each parameter; infinite where the rows do not determine it."""
        rows, parameters = self.slopes.shape
        scale = self.cost / max(rows - parameters, 1)
        values, vectors = np.linalg.eigh(self.slopes.T @ self.slopes)
        weak = values <= values.max(initial=0.0) * 1e-9
        variance = np.where(weak, np.inf, scale / np.where(weak, 1.0, values))
        share = np.where(vectors**2 > 1e-9, vectors**2, 0.0)
        with np.errstate(invalid="ignore"):
            found: Floats = np.sqrt(np.nansum(share * variance, axis=1))
        return found

    def left_out(self) -> Floats:
        """The residual of each row in a fit without it, to first order: by its leverage."""
        leverage = np.einsum("ij,ji->i", self.slopes, np.linalg.pinv(self.slopes))
        found: Floats = self.residuals / np.maximum(1 - leverage, 1e-6)
        return found


def minimum(
    model: Callable[[Floats], tuple[Floats, Callable[[], Floats]]], start: Floats, low: Floats, high: Floats, steps: int
) -> Minimum:
    """The parameters between `low` and `high` with the least sum of squares near `start`, after `steps` steps at most.
    `model`: the residuals of parameters, and a function that returns their derivatives."""
    parameters = np.clip(start, low, high)
    residuals, derive = model(parameters)
    slopes, damping = derive(), 1e-2
    for _ in range(steps):
        before = float(residuals @ residuals)
        while damping < MOST_DAMPING:
            tried = np.clip(parameters + _step(parameters, residuals, slopes, damping, low, high), low, high)
            found, derive = model(tried)
            if found @ found < before:
                break
            damping *= 8
        else:
            break
        parameters, residuals, damping = tried, found, damping / 8
        slopes = derive()
        if residuals @ residuals > before * (1 - ENOUGH):
            break
    return Minimum(parameters, residuals, slopes)


def _step(parameters: Floats, residuals: Floats, slopes: Floats, damping: float, low: Floats, high: Floats) -> Floats:
    """The damped step; parameters that are held by a bound stay."""
    downhill = -slopes.T @ residuals
    free = ~(((parameters <= low) & (downhill < 0)) | ((parameters >= high) & (downhill > 0)))
    normal = slopes[:, free].T @ slopes[:, free]
    normal += damping * np.diag(np.maximum(np.diag(normal), 1e-6))
    step = np.zeros(len(parameters))
    if free.any():
        step[free] = np.clip(np.linalg.solve(normal, downhill[free]), -2.0, 2.0)
    return step
