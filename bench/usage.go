package main

import (
	"fmt"
	"io"
)

const usageLine = "usage: bench [flags] COLLECTIVE...\n"

const usageHead = usageLine + `
Measures collectives and checks every element of their results. Collectives are all_reduce, broadcast, reduce,
all_gather, reduce_scatter, all_to_all, gather, scatter, sendrecv (to the next rank, from the one before), barrier,
and all.

`

const usageTail = `
Sizes go from -b by the factor -f up to and including -e. As in nccl-tests, a size is what a rank sends or receives in
all, whichever is more: for all_gather, reduce_scatter, all_to_all, gather and scatter the parts of all ranks together,
of which count is one. all_reduce, broadcast and reduce work in place, the others from one buffer to another.

On the CPU, time is of one operation: the iterations come in about five batches; a batch takes as long as its slowest rank; the
time is the mean over all iterations. min and max, min_us and max_us in the JSON lines, are the means of the fastest
and of the slowest batch. Before each batch the ranks meet in a barrier.

With -compare openmpi or gloo that library runs in as many processes of this machine, which bench starts: a C program that it
compiles with -mpicc and starts with -mpirun, or a Python program on torch.distributed. Each does the same operation on the
same sizes, batch by batch in turn with colligo, and sleeps in the kernel in between. Times are those of the median batch; min and
max those of the fastest and the slowest; ratio is its time / time. Open MPI uses shared memory or TCP as colligo does. Every
result of one operation of both is checked. With -markdown the comparison is printed as docs/performance.md has it; -ranks 2,4,8
brings several runs together. The plot has colligo's lines and, dotted, the other's.

On GPUs, one process a rank or with -threads one for all, operations follow one another on one stream of each rank.
Five loops of at least 20 operations and about 30 ms (or a fifth of -n) are timed by CUDA events; a loop takes as long
as its slowest rank, and the time is the median loop's, min and max are the fastest's and the slowest's. A barrier's is the
host's, from call to return. With -graph the
operations of a loop are those of captured graphs, but for barriers. With -compare nccl a loop of NCCL follows each of
colligo's, with the same tensors and stream; ratio is its time / time; its barrier is PyTorch's, an all_reduce that the
host waits for, its sendrecv a group of ncclSend and ncclRecv; gather and scatter are not compared. With -register the
memory of the tensors is registered with both, as programs do that use the same buffers for long. NVLink multicast stays
off in NCCL, unless the environment sets NCCL_NVLS_ENABLE.

algbw is size / time in 10^9 bytes per second. busbw is algbw times
    all_reduce                                            2 (n-1) / n
    all_gather, reduce_scatter, all_to_all, gather, scatter (n-1) / n
    broadcast, reduce, sendrecv                           1
for n ranks, so that it can be held against the speed of a link whatever the number of ranks.

#wrong is the number of elements, over all ranks, that differ from the only right result. The exit code is 1 if there
are any, or if anything else fails, and 2 for arguments that make no sense.
`

// shortUsage is what stands behind an error, which the flags' texts would push off the screen.
func shortUsage(w io.Writer) {
	fmt.Fprintf(w, "%s  for example: bench all_reduce -ranks 4 -b 1Ki -e 1Mi\n  bench -help lists the collectives and the flags\n", usageLine)
}

func usage(w io.Writer) {
	f := defaults().flags()
	f.SetOutput(w)
	fmt.Fprint(w, usageHead)
	f.PrintDefaults()
	fmt.Fprint(w, usageTail)
}
