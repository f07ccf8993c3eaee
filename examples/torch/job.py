"""A job of PyTorch's that leaves flight recorder dumps in a folder: with call stacks as torch_rank_N, without as bare_rank_N.

    python3 -m torch.distributed.run --nproc-per-node 2 examples/torch/job.py FOLDER [skip]

With skip the last rank leaves the last call out.
"""

import os
import sys
import time

import torch
import torch.distributed as dist


def calls(device: torch.device, size: int) -> None:
    other = torch.bfloat16 if device.type == "cuda" else torch.float64  # builds of gloo may lack bfloat16
    x = torch.ones(2, 3, device=device)
    gathered = torch.empty(2 * size, 3, device=device)
    for _ in range(2):
        dist.all_reduce(x)
        dist.broadcast(torch.ones(8, dtype=other, device=device), 0)
        dist.all_gather_into_tensor(gathered, x)
        dist.reduce_scatter_tensor(x, gathered)
        dist.all_gather([torch.empty_like(x) for _ in range(size)], x)
        dist.all_to_all_single(torch.empty_like(gathered), gathered)
        dist.barrier()


def main(folder: str, skip: bool) -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpu = torch.cuda.device_count() >= size
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo", device_id=device if gpu else None)
    pair = dist.new_group([0, 1])
    calls(device, size)
    message = torch.ones(100, dtype=torch.uint8, device=device)
    if rank == 0:
        dist.send(message, 1, group=pair)
    elif rank == 1:
        dist.recv(message, 0, group=pair)
    if gpu:
        torch.cuda.synchronize()
    if not skip or rank != size - 1:
        dist.all_reduce(torch.ones(6, device=device), async_op=not gpu)  # which would wait on the CPU
    time.sleep(1)  # the watchdog finds what is done
    c10d = torch._C._distributed_c10d
    dump = c10d._dump_nccl_trace if gpu else c10d._dump_fr_trace
    for name, stacks in ("torch_rank_", True), ("bare_rank_", False):
        with open(os.path.join(folder, f"{name}{rank}"), "wb") as f:
            f.write(dump(True, stacks, False))
    if skip:
        time.sleep(1)
        os._exit(0)  # nobody will ever complete the last call
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], "skip" in sys.argv[2:])
