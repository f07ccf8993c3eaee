# One rank of a job of PyTorch. It carries out the operations of a file, one on each line, and prints a hash of each result.
import datetime, hashlib, os, sys
import torch
import torch.distributed as dist

MASK = 0xFFFFFFFF
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX,
       "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR, "bxor": dist.ReduceOp.BXOR}
if hasattr(dist.ReduceOp, "AVG"):
    OPS["avg"] = dist.ReduceOp.AVG


def values(seed, rank, n, dtype, special=False):
    """Element i of a rank's input, the same as in the ranks in Go."""
    x = (torch.arange(n, dtype=torch.int64) * 2654435761 + rank * 2654304257 + seed * 97003) & MASK
    if not dtype.is_floating_point:
        return x.to(dtype)
    v = ((x.to(torch.float64) / 4294967296 - 0.5) * 10).to(torch.float32).to(dtype) if dtype != torch.float64 else (x.to(torch.float64) / 4294967296 - 0.5) * 10
    if special:
        v[x % 7 == 0] = float("nan")
        v[x % 7 == 1] = 0.0
        v[x % 7 == 2] = -0.0
    return v


def say(i, *tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.contiguous().view(torch.uint8).numpy().tobytes() if t.numel() else b"")
    print("result", i, h.hexdigest()[:16], flush=True)


def run(i, f):
    name, dtype, n, root, op = f[0], getattr(torch, f[1]), int(f[2]), int(f[3]), f[4]
    r, size = dist.get_rank(), dist.get_world_size()
    root %= size
    v = values(i, r, n, dtype, op in ("min", "max"))
    if name == "all_reduce":
        dist.all_reduce(v, OPS[op])
        say(i, v)
    elif name == "reduce":
        dist.reduce(v, root, OPS[op])
        say(i, *([v] if r == root else []))
    elif name == "broadcast":
        dist.broadcast(v, root)
        say(i, v)
    elif name == "all_gather":
        out = [torch.empty_like(v) for _ in range(size)]
        dist.all_gather(out, v)
        say(i, *out)
    elif name == "gather":
        out = [torch.empty_like(v) for _ in range(size)] if r == root else None
        dist.gather(v, out, root)
        say(i, *(out or []))
    elif name == "scatter":
        ins = [values(i * 31 + k, r, n, dtype) for k in range(size)] if r == root else None
        dist.scatter(v, ins, root)
        say(i, v)
    elif name == "all_to_all_single":
        v = values(i, r, n * size, dtype)
        out = torch.empty_like(v)
        dist.all_to_all_single(out, v)
        say(i, out)
    elif name == "all_to_all_uneven":
        give, take = [(r + 2 * q) % 3 * n for q in range(size)], [(q + 2 * r) % 3 * n for q in range(size)]
        v = values(i, r, sum(give), dtype)
        out = torch.empty(sum(take), dtype=dtype)
        dist.all_to_all_single(out, v, take, give)
        say(i, out)
    elif name == "barrier":
        dist.barrier()
        say(i)
    elif name == "monitored_barrier":
        dist.monitored_barrier()
        say(i)
    elif name == "ring":  # of messages
        out = torch.empty_like(v)
        works = [dist.irecv(out, (r + size - 1) % size, tag=root), dist.isend(v, (r + 1) % size, tag=root)]
        [w.wait() for w in works]
        say(i, out)
    elif name == "any":  # all but rank 0 send to it
        if r > 0:
            dist.send(v, 0, tag=77)
            return say(i)
        out = [torch.empty_like(v) for _ in range(size)]
        for _ in range(size - 1):
            one = torch.empty_like(v)
            out[dist.recv(one, None, tag=77)] = one
        say(i, *out[1:])
    elif name == "all_reduce_coalesced":
        vs = [v, values(i + 1, r, 17, dtype)]
        dist.all_reduce_coalesced(vs, OPS[op])
        say(i, *vs)
    elif name == "all_gather_coalesced":
        ins = [v, values(i + 1, r, 17, dtype)]
        outs = [[torch.empty_like(t) for t in ins] for _ in range(size)]
        dist.all_gather_coalesced(outs, ins)
        say(i, *[outs[k][j] for j in range(2) for k in range(size)])
    elif name == "async":
        vs = [values(i + k, r, n, dtype) for k in range(4)]
        [w.wait() for w in [dist.all_reduce(t, async_op=True) for t in vs]]
        say(i, *vs)
    elif name == "group":
        ranks = [k for k in range(size) if k != root] if size > 2 else [0, 1]
        g = dist.new_group(ranks)
        if r in ranks:
            dist.all_reduce(v, group=g)
        say(i, v)
    elif name == "object":
        out = [None] * size
        dist.all_gather_object(out, {"rank": r, "text": "x" * (r * 3)})
        say(i, torch.tensor([o["rank"] * 100 + len(o["text"]) for o in out], dtype=torch.int64))
    elif name == "reduce_scatter_tensor":
        v = values(i, r, n * size, dtype)
        out = torch.empty(n, dtype=dtype)
        dist.reduce_scatter_tensor(out, v, OPS[op])
        say(i, out)
    elif name == "die":
        os._exit(9) if r == root else dist.all_reduce(v)
    elif name == "sleep":
        import time
        time.sleep(20) if r == root else dist.all_reduce(v)
    elif name == "longer":  # one rank's call has another length
        v = values(i, r, n + (r == root), dtype)
        dist.all_reduce(v)
    else:
        raise ValueError(name)


dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=float(os.environ["LIMIT"])))
try:
    for i, line in enumerate(open(sys.argv[1])):
        run(i, line.split())
except RuntimeError as e:
    print("error", str(e).replace("\n", " ")[:300], flush=True)
    sys.exit(3)
print("over", flush=True)
