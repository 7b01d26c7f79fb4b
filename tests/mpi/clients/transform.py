"""Transforms of an array that is divided among the ranks, by mpi4py-fft, beside numpy's of the whole one."""

import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

comm = MPI.COMM_WORLD
whole = np.random.default_rng(3).random((12, 14, 10))
exact = np.fft.rfftn(whole) / whole.size
for grid in ((-1,), (0, 0, 1)):  # slabs and pencils
    fft = PFFT(comm, whole.shape, axes=(0, 1, 2), dtype=float, grid=grid)
    x = newDistArray(fft, False)
    x[:] = whole[x.local_slice()]
    assert np.allclose(fft.forward(x), exact[fft.local_slice(True)])
    assert np.allclose(fft.backward(fft.forward(x)), whole[x.local_slice()])
    fft.destroy()
print("the transforms agree")
