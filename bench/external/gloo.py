"""Times collectives of torch.distributed on Gloo for bench, which starts one such process for each rank and tells it what to do.

Arguments: socket, file for the rendezvous, rank, ranks. Each process connects to the Unix socket and reads lines from it, so that
it uses no processor while bench measures colligo:

    time COLL DTYPE OP ROOT COUNT N     runs N operations after a barrier and answers "ok", the nanoseconds they took
    check COLL DTYPE OP ROOT COUNT      answers "ok", the elements of one result that are wrong

COUNT is of a rank's part, or of the whole tensor where there are no parts. An operation that this version lacks is answered with
"no". The end of the socket ends the process.
"""

import socket
import sys
import time

import torch
import torch.distributed as dist

PATH, MEETING, RANK, RANKS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX, "none": None}
IN_PLACE = ("all_reduce", "reduce", "broadcast")
MANY_IN = ("reduce_scatter", "all_to_all", "scatter")
MANY_OUT = ("all_gather", "all_to_all", "gather")


class Work:
    """One operation bound to its tensors."""

    def __init__(self, coll, dtype, op, root, count):
        self.coll, self.op, self.opname, self.root, self.n = coll, OPS[op], op, int(root), int(count)
        dtype = getattr(torch, dtype)
        self.input = torch.zeros(self.n * (RANKS if coll in MANY_IN else 1), dtype=dtype)
        self.output = self.input if coll in IN_PLACE else torch.zeros(self.n * (RANKS if coll in MANY_OUT else 1), dtype=dtype)
        self.ins, self.outs = self.parts(self.input), self.parts(self.output)
        self.call = getattr(self, coll)

    def parts(self, t):
        return list(t.split(self.n)) if self.n else [t] * RANKS

    def all_reduce(self):
        dist.all_reduce(self.input, self.op)

    def broadcast(self):
        dist.broadcast(self.input, self.root)

    def reduce(self):
        dist.reduce(self.input, self.root, self.op)

    def all_gather(self):
        dist.all_gather(self.outs, self.input)

    def reduce_scatter(self):
        if hasattr(dist, "reduce_scatter_tensor"):
            dist.reduce_scatter_tensor(self.output, self.input, self.op)
        else:
            dist.reduce_scatter(self.output, self.ins, self.op)

    def all_to_all(self):
        dist.all_to_all_single(self.output, self.input)

    def gather(self):
        dist.gather(self.input, self.outs if RANK == self.root else None, self.root)

    def scatter(self):
        dist.scatter(self.output, self.ins if RANK == self.root else None, self.root)

    def sendrecv(self):
        sent = dist.isend(self.input, (RANK + 1) % RANKS)
        dist.recv(self.output, (RANK + RANKS - 1) % RANKS)
        sent.wait()

    def barrier(self):
        dist.barrier()

    def measure(self, n):
        call = self.call
        dist.barrier()
        start = time.monotonic_ns()
        for _ in range(n):
            call()
        return time.monotonic_ns() - start

    def value(self, rank, first, n):
        """Elements of a rank's input."""
        return 1 + (5 * rank + first + torch.arange(n)) % 3

    def reduced(self, first):
        r = self.value(0, first, self.n)
        for k in range(1, RANKS):
            v = self.value(k, first, self.n)
            r = {"sum": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}[self.opname](r, v)
        return r

    def expected(self):
        n = self.n
        if self.coll in ("all_reduce", "reduce"):
            return self.reduced(0)
        if self.coll == "reduce_scatter":
            return self.reduced(RANK * n)
        if self.coll == "broadcast":
            return self.value(self.root, 0, n)
        if self.coll == "scatter":
            return self.value(self.root, RANK * n, n)
        if self.coll == "sendrecv":
            return self.value((RANK + RANKS - 1) % RANKS, 0, n)
        first = RANK * n if self.coll == "all_to_all" else 0
        return torch.cat([self.value(k, first, n) for k in range(RANKS)])

    def check(self):
        self.output.fill_(0)
        self.input.copy_(self.value(RANK, 0, len(self.input)))
        self.call()
        if self.coll == "barrier" or self.coll in ("reduce", "gather") and RANK != self.root:
            return 0
        return int((self.output != self.expected().to(self.output.dtype)).sum())


class Operations:
    """Keeps the last operation, so that its tensors are made once."""

    key = work = None

    def answer(self, verb, *args):
        try:
            if self.key != args[:5]:
                self.work, self.key = Work(*args[:5]), args[:5]
            return "ok %d" % (self.work.measure(int(args[5])) if verb == "time" else self.work.check())
        except (AttributeError, KeyError, RuntimeError, ValueError) as e:
            return "no " + " ".join(str(e).split())


def main():
    dist.init_process_group("gloo", init_method="file://" + MEETING, rank=RANK, world_size=RANKS)
    bench = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bench.connect(PATH)
    lines = bench.makefile("rw", buffering=1)
    lines.write("rank %d of Gloo of torch %s\n" % (RANK, torch.__version__))
    operations = Operations()
    with torch.no_grad():
        for line in lines:
            lines.write(operations.answer(*line.split()) + "\n")


main()
