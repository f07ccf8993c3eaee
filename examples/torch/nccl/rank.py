"""One rank of a job of PyTorch's by NCCL. It carries out the calls of a file, one on each line, as the program in Go beside it does.

    rank.py calls SEED        prints such a file
    rank.py run FILE          is a rank; EAGER=1 binds the group to the device

Element i of a rank's input in call k is a small whole number, so every sum is exact in every type.
"""

import datetime
import os
import random
import sys

TYPES = ["float32", "bfloat16", "float16", "int64", "uint8"]
COLLECTIVES = ["all_reduce", "reduce", "broadcast", "all_gather", "all_gather_uneven", "all_gather_into_tensor", "reduce_scatter",
               "reduce_scatter_uneven", "reduce_scatter_tensor", "all_to_all_single", "all_to_all_uneven", "all_to_all", "gather",
               "scatter", "send_recv", "batch", "coalesced", "async", "barrier"]
OBJECTS = ["all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list"]
GROUPS = ["new_group", "new_group_all", "split_group"]


def calls(seed):
    r = random.Random(int(seed))
    lines = [(name, dtype) for dtype in TYPES for name in COLLECTIVES]
    lines += [(name, "uint8") for name in OBJECTS] + [(name, "float32") for name in GROUPS]
    lines += [(r.choice(COLLECTIVES + OBJECTS), r.choice(TYPES)) for _ in range(200)]
    for name, dtype in lines:
        ops = ["sum", "max", "min", "product"] + (["avg"] if dtype[0] in "fb" else [])
        print(name, dtype, r.choice([1, 5, 64, 1000, 4096]), r.randrange(64), r.choice(ops))


if sys.argv[1] == "calls":
    calls(sys.argv[2])
    sys.exit(0)

import torch
import torch.distributed as dist

DEVICE = torch.device("cuda", int(os.environ.get("DEVICE", 0)))
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX, "avg": dist.ReduceOp.AVG}


def numbers(k, rank, n, op="sum"):
    x = (torch.arange(n, dtype=torch.int64) * 7 + rank * 13 + k * 5) % 11
    return x % 2 + 1 if op == "product" else x


def fold(k, ranks, n, op):
    xs = torch.stack([numbers(k, r, n, op) for r in ranks])
    if op == "avg":
        return xs.sum(0).to(torch.float64) / len(ranks)
    return {"sum": xs.sum, "max": xs.amax, "min": xs.amin, "product": xs.prod}[op](0)


def on(x, dtype):
    return x.to(dtype).to(DEVICE)


def empty(n, dtype):
    return torch.empty(n, dtype=dtype, device=DEVICE)


class Wrong(Exception):
    pass


def same(got, want):
    got = got.cpu()
    want = want.to(got.dtype)
    if not torch.equal(got, want):
        i = int((got != want).nonzero()[0])
        raise Wrong(f"element {i} of {got.numel()} is {got[i]}, want {want[i]}")


def lengths(n, size):
    return [n + 3 * q for q in range(size)]


def cut(k, rank, counts, op="sum"):
    return torch.split(numbers(k, rank, sum(counts), op), counts)


def collective(k, name, dtype, n, root, op, group=None, me=None, size=None):
    g = group
    r = dist.get_rank() if me is None else me
    size = dist.get_world_size() if size is None else size
    root %= size
    every = range(size)
    if name == "all_reduce":
        t = on(numbers(k, r, n, op), dtype)
        dist.all_reduce(t, OPS[op], group=g)
        same(t, fold(k, every, n, op))
    elif name == "reduce":
        t = on(numbers(k, r, n, op), dtype)
        dist.reduce(t, root, OPS[op])
        if r == root:
            same(t, fold(k, every, n, op))
    elif name == "broadcast":
        t = on(numbers(k, r, n), dtype)
        dist.broadcast(t, root)
        same(t, numbers(k, root, n))
    elif name == "all_gather":
        outs = [empty(n, dtype) for _ in every]
        dist.all_gather(outs, on(numbers(k, r, n), dtype))
        for q in every:
            same(outs[q], numbers(k, q, n))
    elif name == "all_gather_uneven":
        counts = lengths(n, size)
        outs = [empty(c, dtype) for c in counts]
        dist.all_gather(outs, on(numbers(k, r, counts[r]), dtype))
        for q in every:
            same(outs[q], numbers(k, q, counts[q]))
    elif name == "all_gather_into_tensor":
        out = empty(n * size, dtype)
        dist.all_gather_into_tensor(out, on(numbers(k, r, n), dtype))
        same(out, torch.cat([numbers(k, q, n) for q in every]))
    elif name == "reduce_scatter":
        out = empty(n, dtype)
        dist.reduce_scatter(out, [t.clone() for t in on(numbers(k, r, n * size, op), dtype).split(n)], OPS[op])
        same(out, fold(k, every, n * size, op)[r * n:][:n])
    elif name == "reduce_scatter_uneven":
        counts = lengths(n, size)
        out = empty(counts[r], dtype)
        dist.reduce_scatter(out, [on(t, dtype) for t in cut(k, r, counts, op)], OPS[op])
        same(out, fold(k, every, sum(counts), op)[sum(counts[:r]):][:counts[r]])
    elif name == "reduce_scatter_tensor":
        out = empty(n, dtype)
        dist.reduce_scatter_tensor(out, on(numbers(k, r, n * size, op), dtype), OPS[op])
        same(out, fold(k, every, n * size, op)[r * n:][:n])
    elif name == "all_to_all_single":
        out = empty(n * size, dtype)
        dist.all_to_all_single(out, on(numbers(k, r, n * size), dtype))
        same(out, torch.cat([numbers(k, q, n * size)[r * n:][:n] for q in every]))
    elif name == "all_to_all_uneven":
        give, take = [(r + 2 * q) % 3 * n for q in every], [(q + 2 * r) % 3 * n for q in every]
        out = empty(sum(take), dtype)
        dist.all_to_all_single(out, on(numbers(k, r, sum(give)), dtype), take, give)
        same(out, torch.cat([cut(k, q, [(q + 2 * p) % 3 * n for p in every])[r] for q in every]))
    elif name == "all_to_all":
        outs = [empty(n + r + q, dtype) for q in every]
        dist.all_to_all(outs, [on(t, dtype) for t in cut(k, r, [n + r + q for q in every])])
        for q in every:
            same(outs[q], cut(k, q, [n + q + p for p in every])[r])
    elif name == "gather":
        outs = [empty(n, dtype) for _ in every] if r == root else None
        dist.gather(on(numbers(k, r, n), dtype), outs, root)
        for q, t in enumerate(outs or []):
            same(t, numbers(k, q, n))
    elif name == "scatter":
        out = empty(n, dtype)
        dist.scatter(out, [on(numbers(k, q, n), dtype) for q in every] if r == root else None, root)
        same(out, numbers(k, r, n))
    elif name == "send_recv":  # from each rank to the next and back, in pairs
        peer = r ^ 1
        if peer < size:
            t = on(numbers(k, r, n), dtype)
            got = empty(n, dtype)
            for first in (0, 1):
                dist.send(t, peer) if r % 2 == first else dist.recv(got, peer)
            same(got, numbers(k, peer, n))
    elif name == "batch":  # a ring
        t, got = on(numbers(k, r, n), dtype), empty(n, dtype)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, t, (r + 1) % size), dist.P2POp(dist.irecv, got, (r + size - 1) % size)])
        for w in works:
            w.wait()
        same(got, numbers(k, (r + size - 1) % size, n))
    elif name == "coalesced":
        ts = [on(numbers(k + j, r, n + j, op), dtype) for j in range(3)]
        with dist._coalescing_manager(device=DEVICE):
            for t in ts:
                dist.all_reduce(t, OPS[op])
        for j, t in enumerate(ts):
            same(t, fold(k + j, every, n + j, op))
    elif name == "async":
        ts = [on(numbers(k + j, r, n, op), dtype) for j in range(3)]
        for w in [dist.all_reduce(t, OPS[op], async_op=True) for t in ts]:
            w.wait()
        for j, t in enumerate(ts):
            same(t, fold(k + j, every, n, op))
    elif name == "barrier":
        dist.barrier()
    elif name.endswith("object") or name.endswith("object_list"):
        objects(k, name, n, root, r, size)
    elif name == "new_group":
        ranks = [root % size, (root + 1) % size]
        part = dist.new_group(sorted(set(ranks)))
        within(k, part, sorted(set(ranks)), n, op, dtype)
    elif name == "new_group_all":
        within(k, dist.new_group(), list(every), n, op, dtype)
    elif name == "split_group":
        if os.environ.get("EAGER") != "1":
            return
        halves = [list(range(size // 2)), list(range(size // 2, size))]
        part = dist.split_group(split_ranks=halves)
        within(k, part, halves[r >= size // 2], n, op, dtype)
    elif name == "die":
        if r == root:
            os._exit(9)
        t = on(numbers(k, r, n), dtype)
        dist.all_reduce(t)
        torch.cuda.synchronize()
    else:
        raise ValueError(name)


def within(k, part, ranks, n, op, dtype):
    r = dist.get_rank()
    if r not in ranks:
        return
    for again in range(2):
        t = on(numbers(k + again, r, n, op), dtype)
        dist.all_reduce(t, OPS[op], group=part)
        same(t, fold(k + again, ranks, n, op))
    out = [None] * len(ranks)
    dist.all_gather_object(out, thing(k, r), group=part)
    equal(out, [thing(k, q) for q in ranks])
    if len(ranks) > 1:
        peer = ranks[1 - ranks.index(r)] if r in ranks[:2] else None
        if peer is not None:
            t, got = on(numbers(k, r, n), dtype), empty(n, dtype)
            for first in (0, 1):
                dist.send(t, peer, group=part) if ranks.index(r) == first else dist.recv(got, peer, group=part)
            same(got, numbers(k, peer, n))
    dist.barrier(group=part)
    # as long as the default group is there: ranks of PyTorch destroy groups with it


def thing(k, r):
    return {"rank": r, "call": k, "text": "x" * (r * 7 + k % 5), "list": [1, 2.5, None, True]}


def equal(got, want):
    if got != want:
        raise Wrong(f"{got} want {want}")


def objects(k, name, n, root, r, size):
    every = range(size)
    if name == "all_gather_object":
        out = [None] * size
        dist.all_gather_object(out, thing(k, r))
        equal(out, [thing(k, q) for q in every])
    elif name == "gather_object":
        out = [None] * size if r == root else None
        dist.gather_object(thing(k, r), out, root)
        if r == root:
            equal(out, [thing(k, q) for q in every])
    elif name == "broadcast_object_list":
        out = [thing(k, r), thing(k + 1, r)]
        dist.broadcast_object_list(out, root, device=DEVICE)
        equal(out, [thing(k, root), thing(k + 1, root)])
    elif name == "scatter_object_list":
        out = [None]
        dist.scatter_object_list(out, [thing(k, q) for q in every] if r == root else None, root)
        equal(out[0], thing(k, r))
    elif name == "send_object_list":
        if r == 0:
            dist.send_object_list([thing(k, 0), "second"], 1, device=DEVICE)
        elif r == 1:
            out = [None, None]
            dist.recv_object_list(out, 0, device=DEVICE)
            equal(out, [thing(k, 0), "second"])


def main(path):
    torch.cuda.set_device(DEVICE)
    eager = os.environ.get("EAGER") == "1"
    limit = datetime.timedelta(seconds=float(os.environ.get("LIMIT", 20)))
    dist.init_process_group("nccl", device_id=DEVICE if eager else None, timeout=limit)
    wrong, count = 0, 0
    for k, line in enumerate(open(path)):
        name, dtype, n, root, op = line.split()
        try:
            collective(k, name, getattr(torch, dtype), int(n), int(root), op)
        except Wrong as e:
            wrong += 1
            print(f"wrong: call {k} {line.strip()}: {e}", flush=True)
        except BaseException as e:
            print(f"failed: call {k} {line.strip()}: {type(e).__name__} {e}", flush=True)
            os._exit(3)
        count += 1
    dist.destroy_process_group()
    print(f"over: {count} calls, {wrong} wrong", flush=True)


main(sys.argv[2])
