"""Chains of emcee, whose probabilities the ranks of schwimmbad's pool compute, beside those of one process."""

import sys

import emcee
import numpy as np
from schwimmbad import MPIPool


def log_probability(x, scale):
    return -0.5 * np.sum((x / scale) ** 2)


def chain(pool):
    np.random.seed(5)
    start, scale = np.random.randn(32, 5), np.sqrt(np.arange(1.0, 6.0))
    sampler = emcee.EnsembleSampler(32, 5, log_probability, args=[scale], pool=pool)
    sampler.run_mcmc(start, 30)
    return sampler.get_chain()


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    assert np.array_equal(chain(pool), chain(None))
    print("the chains agree", pool.size)
