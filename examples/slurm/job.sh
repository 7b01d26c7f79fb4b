#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
# Rank 0 is on the first node. A file that the nodes share does as well: RINGTREE_ADDRESS=file:///path/on/all/nodes
export RINGTREE_ADDRESS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):29400
export RINGTREE_SECRET=$(openssl rand -hex 16)
export RINGTREE_TIMEOUT=60
srun --kill-on-bad-exit=1 python examples/hello.py
