# Ranks of jobs of PyTorch. A rank carries out the operations of a file, one on each line, and prints a hash of each result.
#
# "rank.py" serves: it imports PyTorch once, listens at a socket whose path is its argument, and forks a rank for each connection. A
# connection brings one line of JSON with the rank's environment; the rank's output goes back on it, between "pid N" and "exit N".
import contextlib, datetime, gc, hashlib, json, os, select, signal, socket, sys, time
import torch
import torch.distributed as dist

MASK = 0xFFFFFFFF
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX,
       "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR, "bxor": dist.ReduceOp.BXOR}
if hasattr(dist.ReduceOp, "AVG"):
    OPS["avg"] = dist.ReduceOp.AVG


PERIOD = 4099  # of the elements, so that large tensors are made fast


def values(seed, rank, n, dtype, special=False):
    """A rank's input, the same as in the ranks in Go."""
    if n > PERIOD:
        x, have = torch.empty(n, dtype=dtype), PERIOD
        x[:have] = values(seed, rank, PERIOD, dtype, special)
        while have < n:  # what there is once more
            more = min(have, n - have)
            x[have:have + more] = x[:more]
            have += more
        return x
    x = (torch.arange(n, dtype=torch.int64) * 2654435761 + rank * 2654304257 + seed * 97003) & MASK
    if not dtype.is_floating_point:
        return x.to(dtype)
    v = (x.to(torch.float64) / 4294967296 - 0.5) * 10
    if dtype != torch.float64:
        v = v.to(torch.float32).to(dtype)
    if special:
        v[x % 7 == 0] = float("nan")
        v[x % 7 == 1] = 0.0
        v[x % 7 == 2] = -0.0
    return v


def say(i, *tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.contiguous().view(torch.uint8).numpy().data if t.numel() else b"")
    print("result", i, h.hexdigest()[:16], flush=True)


def refused(i, call):
    """A call that this version refuses before it says anything to other ranks."""
    try:
        call()
    except (RuntimeError, ValueError, NotImplementedError):
        return say(i)
    raise AssertionError("the call is not refused")


class Op:
    def __init__(self, f):
        self.name, self.dtype, self.n, self.op, self.i = f[0], getattr(torch, f[1]), int(f[2]), OPS.get(f[4]), int(f[5])
        self.r, self.size = dist.get_rank(), dist.get_world_size()
        self.calls, self.root = int(f[3]), int(f[3]) % self.size
        self.special = f[4] in ("min", "max")
        self.v = self.of(self.n, self.special)

    def of(self, n, special=False, more=0):
        return values(self.i + more, self.r, n, self.dtype, special)

    def empties(self):
        return [torch.empty_like(self.v) for _ in range(self.size)]

    def run(self):
        getattr(self, self.name)(self.i, self.v, self.r, self.size, self.root)

    def all_reduce(self, i, v, r, size, root):
        dist.all_reduce(v, self.op)
        say(i, v)

    def reduce(self, i, v, r, size, root):
        dist.reduce(v, root, self.op)
        say(i, *([v] if r == root else []))

    def broadcast(self, i, v, r, size, root):
        dist.broadcast(v, root)
        say(i, v)

    def all_gather(self, i, v, r, size, root):
        out = self.empties()
        dist.all_gather(out, v)
        say(i, *out)

    def all_gather_into(self, i, v, r, size, root):
        out = torch.empty(self.n * size, dtype=self.dtype)
        dist.all_gather_into_tensor(out, v)
        say(i, out)

    def gather(self, i, v, r, size, root):
        out = self.empties() if r == root else None
        dist.gather(v, out, root)
        say(i, *(out or []))

    def scatter(self, i, v, r, size, root):
        dist.scatter(v, [values(i * 31 + k, r, self.n, self.dtype) for k in range(size)] if r == root else None, root)
        say(i, v)

    def all_to_all_single(self, i, v, r, size, root):
        v = self.of(self.n * size)
        out = torch.empty_like(v)
        dist.all_to_all_single(out, v)
        say(i, out)

    def all_to_all_uneven(self, i, v, r, size, root):
        give, take = [(r + 2 * q) % 3 * self.n for q in range(size)], [(q + 2 * r) % 3 * self.n for q in range(size)]
        out = torch.empty(sum(take), dtype=self.dtype)
        dist.all_to_all_single(out, self.of(sum(give)), take, give)
        say(i, out)

    def all_to_all(self, i, v, r, size, root):
        out = self.empties()
        dist.all_to_all(out, list(self.of(self.n * size, self.special).chunk(size)))
        say(i, *out)

    def all_to_all_refused(self, i, v, r, size, root):
        refused(i, lambda: dist.all_to_all(self.empties(), self.empties()))

    def reduce_scatter_tensor(self, i, v, r, size, root):
        out = torch.empty(self.n, dtype=self.dtype)
        dist.reduce_scatter_tensor(out, self.of(self.n * size, self.special), self.op)
        say(i, out)

    def reduce_scatter(self, i, v, r, size, root):
        out = torch.empty(self.n, dtype=self.dtype)
        dist.reduce_scatter(out, list(self.of(self.n * size, self.special).chunk(size)), self.op)
        say(i, out)

    def reduce_scatter_refused(self, i, v, r, size, root):
        refused(i, lambda: dist.reduce_scatter(torch.empty_like(v), self.empties()))

    def reduce_scatter_coalesced(self, i, v, r, size, root):
        outs = [torch.empty(n, dtype=self.dtype) for n in (self.n, 17)]
        with dist.distributed_c10d._coalescing_manager():
            dist.reduce_scatter_tensor(outs[0], self.of(self.n * size, self.special), self.op)
            dist.reduce_scatter_tensor(outs[1], self.of(17 * size, self.special, more=1), self.op)
        say(i, *outs)

    def all_gather_into_coalesced(self, i, v, r, size, root):
        outs = [torch.empty(n * size, dtype=self.dtype) for n in (self.n, 17)]
        with dist.distributed_c10d._coalescing_manager():
            dist.all_gather_into_tensor(outs[0], v)
            dist.all_gather_into_tensor(outs[1], self.of(17, more=1))
        say(i, *outs)

    def barrier(self, i, v, r, size, root):
        dist.barrier()
        say(i)

    def monitored_barrier(self, i, v, r, size, root):
        dist.monitored_barrier(wait_all_ranks=self.n > 1)
        say(i)

    def ring(self, i, v, r, size, root):  # of messages
        out = torch.empty_like(v)
        works = [dist.irecv(out, (r + size - 1) % size, tag=root), dist.isend(v, (r + 1) % size, tag=root)]
        [w.wait() for w in works]
        say(i, out)

    def any(self, i, v, r, size, root):  # all but the root send to it, with a tag that no other call has, nor a monitored barrier
        tag = 1_000_000 + i
        if r != root:
            dist.send(v, root, tag=tag)
            return say(i)
        out = [torch.empty(0, dtype=self.dtype) for _ in range(size)]
        for _ in range(size - 1):
            one = torch.empty_like(v)
            out[dist.recv(one, None, tag=tag)] = one
        say(i, *out)

    def all_reduce_coalesced(self, i, v, r, size, root):
        vs = [v, self.of(17, more=1)]
        dist.all_reduce_coalesced(vs, self.op)
        say(i, *vs)

    def all_gather_coalesced(self, i, v, r, size, root):
        ins = [v, self.of(17, more=1)]
        outs = [[torch.empty_like(t) for t in ins] for _ in range(size)]
        dist.all_gather_coalesced(outs, ins)
        say(i, *[outs[k][j] for j in range(2) for k in range(size)])

    def asynchronous(self, i, v, r, size, root):  # short tensors among long ones
        vs = [self.of(n, more=k) for k, n in enumerate([self.n, min(self.n, 1001)] * 2)]
        [w.wait() for w in [dist.all_reduce(t, async_op=True) for t in vs]]
        say(i, *vs)

    def group(self, i, v, r, size, root):
        ranks = [k for k in range(size) if k != root] if size > 2 else [0, 1]
        g = dist.new_group(ranks)
        if r in ranks:
            dist.all_reduce(v, group=g)
        say(i, v)

    def own(self, r):
        return {"rank": r, "text": "x" * (r * 3)}

    def told(self, i, objects):
        say(i, torch.tensor([o["rank"] * 100 + len(o["text"]) for o in objects], dtype=torch.int64))

    def all_gather_object(self, i, v, r, size, root):
        out = [None] * size
        dist.all_gather_object(out, self.own(r))
        self.told(i, out)

    def gather_object(self, i, v, r, size, root):
        out = [None] * size if r == root else None
        dist.gather_object(self.own(r), out, root)
        self.told(i, out or [])

    def broadcast_object_list(self, i, v, r, size, root):
        out = [self.own(root), self.own(root + 5)] if r == root else [None, None]
        dist.broadcast_object_list(out, root)
        self.told(i, out)

    def scatter_object_list(self, i, v, r, size, root):
        out = [None]
        dist.scatter_object_list(out, [self.own(k + 3) for k in range(size)] if r == root else [None] * size, root)
        self.told(i, out)

    def sparse(self, i, v, r, size, root):
        x = torch.arange(self.n, dtype=torch.int64) * (r + 3) % 997
        t = torch.sparse_coo_tensor(x.unsqueeze(0), v.unsqueeze(1).repeat(1, 3), (997, 3))
        dist.all_reduce(t)
        t = t.coalesce()
        say(i, t.indices()[0], t.values())

    # Times, as the ranks in Go take them: of laps, in which each rank is the root of one broadcast.

    def time_all_reduce(self, i, v, r, size, root):
        v.zero_()
        self.time(i, lambda root: dist.all_reduce(v))

    def time_broadcast(self, i, v, r, size, root):
        self.time(i, lambda root: dist.broadcast(v, root))

    def time(self, i, call):
        laps, roots = self.calls, range(self.size)
        for _ in range(1 + laps // 10):  # what is first used then
            [call(root) for root in roots]
        dist.barrier()
        took = []
        for _ in range(laps):
            start = time.perf_counter()
            [call(root) for root in roots]
            took.append((time.perf_counter() - start) / self.size)
        print("result", i, sorted(took)[laps // 2], flush=True)

    # Faults of one rank.

    def die(self, i, v, r, size, root):
        os.kill(os.getpid(), signal.SIGKILL) if r == root else dist.all_reduce(v)

    def stop(self, i, v, r, size, root):
        os.kill(os.getpid(), signal.SIGSTOP) if r == root else dist.all_reduce(v)

    def skip(self, i, v, r, size, root):  # all but one rank call
        r == root or dist.all_reduce(v)

    def longer(self, i, v, r, size, root):
        dist.all_reduce(self.of(self.n + (r == root)))

    def retyped(self, i, v, r, size, root):
        dist.all_reduce(v.to(torch.float64) if r == root else v)

    def other(self, i, v, r, size, root):
        dist.broadcast(v, root) if r == root else dist.all_reduce(v)


def rank(path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=float(os.environ["LIMIT"])))
    try:
        for line in open(path):
            start, op = time.monotonic(), Op(line.split())
            op.run()
    except RuntimeError as e:
        print("waited", time.monotonic() - start, flush=True)
        print("error", str(e).replace("\n", " ")[:300], flush=True)
        return 3
    print("over", flush=True)
    return 0


def child(run):
    """Runs a function in a fork. Its result is the exit code."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = run()
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def begin(conn, ranks):
    """Forks the rank for which a connection asks."""
    request = json.loads(conn.makefile().readline())

    def run():
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.update(request["env"])
        os.dup2(conn.fileno(), 1)
        os.dup2(conn.fileno(), 2)
        return rank(request["path"])

    pid = child(run)
    ranks[pid] = conn
    tell(conn, "pid", pid)


def reap(ranks):
    """Tells of each rank that has ended how it did."""
    while ranks:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if not pid:
            return
        conn = ranks.pop(pid)
        tell(conn, "cpu", used.ru_utime + used.ru_stime)
        tell(conn, "exit", os.waitstatus_to_exitcode(status))
        conn.close()


def tell(conn, *words):
    with contextlib.suppress(OSError):  # whoever has asked is gone
        conn.sendall((" ".join(map(str, words)) + "\n").encode())


def serve(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    ended, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    print("PyTorch", torch.__version__, flush=True)
    gc.freeze()  # the collector of a rank leaves alone what PyTorch's import has made, so a rank copies fewer pages
    ranks = {}  # the connection of each, by process
    while True:
        ready, _, _ = select.select([listener, ended, sys.stdin], [], [])
        if sys.stdin in ready:
            return  # whoever has started it is gone
        if ended in ready:
            ended.recv(4096)
            reap(ranks)
        if listener in ready:
            begin(listener.accept()[0], ranks)


serve(sys.argv[1])
