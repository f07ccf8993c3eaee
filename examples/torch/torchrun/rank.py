"""A rank in Python of the job that main.go describes. Arguments: the number of steps, and the rank that is killed, or -1."""

import os
import signal
import sys

import torch
import torch.distributed as dist

steps, kill = map(int, sys.argv[1:])
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(steps):
    if step == steps // 2 and attempt == "0" and rank == kill:
        print(f"rank {rank} is killed in step {step}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.tensor([float(rank + 1 + step)])
    dist.all_reduce(x)
# In one piece, for all ranks write to one pipe.
sys.stdout.write(f"rank {rank} of {size} is PyTorch: attempt {attempt}, last sum {x.item():.0f}\n")
sys.stdout.flush()
dist.destroy_process_group()
