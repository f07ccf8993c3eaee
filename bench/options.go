package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/tuning"
)

// inProcess is the transport that runs all ranks in this process.
const inProcess = "inproc"

// automatic stands for iterations or warm-up that the time decides.
const automatic = -1

// options is what the arguments say.
type options struct {
	collectives       []collective
	ranks             int
	rankCounts        rankCounts // of one run each; ranks is the first, or that of this run
	ranksSet, joins   bool       // -ranks was given; a launcher has set RANK
	device, transport string
	machine           machine // what resolve has found
	threads           bool
	graph             int
	compare, nccl     string
	mpirun, mpicc     string // commands with arguments
	python            string
	backend           string
	register          bool
	choices, tune     bool
	table, tuned      string        // files
	rules             []tuning.Rule // of table, nil without
	rounds            int
	try               grids
	algo              string
	heap              size
	begin, end        size
	factor            int
	iterations, warm  int
	turns             int
	dtypes, ops       string
	root              int
	verify, json      bool
	markdown          bool
	plot              string
	timeout           time.Duration
}

func defaults() *options {
	return &options{rankCounts: rankCounts{4}, begin: 8, end: 64 << 20, iterations: automatic, warm: automatic}
}

// parse reads flags and collectives, in any order.
func parse(args []string) (*options, error) {
	o := defaults()
	f := o.flags()
	var names []string
	for err := f.Parse(args); ; err = f.Parse(f.Args()[1:]) {
		if err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			break
		}
		names = append(names, f.Arg(0))
	}
	f.Visit(func(f *flag.Flag) { o.ranksSet = o.ranksSet || f.Name == "ranks" })
	if o.table != "" {
		text, err := os.ReadFile(o.table)
		if err == nil {
			o.rules, err = tuning.Parse(string(text))
		}
		if err != nil {
			return nil, fmt.Errorf("-table %s: %w", o.table, err)
		}
	}
	if o.choices && len(names) == 0 {
		return o, nil
	}
	o.ranks = o.rankCounts[0]
	var err error
	o.collectives, err = collectivesNamed(names)
	return o, err
}

// flags declares the flags with their texts.
func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Var(&o.rankCounts, "ranks", "start `N` processes on this machine, or N,M,... one run after another; where RANK is set, join instead")
	f.StringVar(&o.device, "device", "auto", "`where` the tensors are: auto, cpu or cuda")
	f.StringVar(&o.transport, "transport", "auto", "`medium` between ranks: auto, shm, tcp, inproc for all ranks in one process, without either, or nccl: plans whose steps NCCL carries between GPUs")
	f.BoolVar(&o.threads, "threads", false, "run all ranks in one process, each on its own GPU if there are enough")
	f.StringVar(&o.algo, "algo", "", "`name` of the algorithm to use instead of the table's choice; see -choices")
	f.Var(&o.heap, "heap", "`bytes` of GPU memory that each rank sets aside for exchange with its peers, at most; 0 is the usual amount")
	f.IntVar(&o.graph, "graph", 0, "capture `K` operations into a CUDA graph and time its launches, per operation")
	f.StringVar(&o.compare, "compare", "", "`library` to take turns with: nccl on the same GPU tensors and stream, or on the CPU openmpi or gloo")
	f.StringVar(&o.mpirun, "mpirun", "mpirun", "`command` that starts Open MPI's processes, with arguments if need be")
	f.StringVar(&o.mpicc, "mpicc", "mpicc", "`command` that compiles for Open MPI")
	f.StringVar(&o.python, "python", "python3", "`command` of a Python that has torch.distributed with Gloo")
	f.StringVar(&o.backend, "backend", "", "`name` of the backend of GPU tensors: peer, or nccl")
	f.StringVar(&o.nccl, "nccl", "", "`path` of NCCL's library; empty looks in the usual places")
	f.BoolVar(&o.register, "register", false, "register the GPU tensors' memory with the group, and with NCCL if it is compared")
	f.BoolVar(&o.choices, "choices", false, "print the tables by which algorithms are picked, and do nothing else")
	f.BoolVar(&o.tune, "tune", false, "measure what there is to choose from and print the best as a table in Go")
	f.StringVar(&o.table, "table", "", "`file` with the table by which algorithms are picked on the CPU, as -tune -out writes it")
	f.StringVar(&o.tuned, "out", "", "with -tune on the CPU: `file` for the table, which -table and COLLIGO_TUNING read")
	f.IntVar(&o.rounds, "rounds", 1, "with -tune: `times` that all is measured; the least time counts")
	f.Var(&o.try, "try", "with -tune on GPUs: a `list` of algorithms and grids instead of the usual, such as \"tiles 256x256 16Ki,copy-ring 32x512\"")
	f.Var(&o.begin, "b", "first size in `bytes`, or with Ki, Mi, Gi")
	f.Var(&o.end, "e", "last `size`")
	f.IntVar(&o.factor, "f", 4, "`factor` between sizes")
	f.Var((*count)(&o.iterations), "n", "`count` of iterations of each size; auto is at least half a second of them")
	f.Var((*count)(&o.warm), "w", "`count` of iterations before the clock starts; auto is a tenth of a second of them")
	f.IntVar(&o.turns, "turns", batches, "`batches` that the iterations on the CPU come in")
	f.StringVar(&o.dtypes, "d", "float32", "element `types`, a list with commas, or all")
	f.StringVar(&o.ops, "o", "sum", "`reductions`, a list with commas, or all")
	f.IntVar(&o.root, "r", 0, "`root` of broadcast, reduce, gather and scatter")
	f.BoolVar(&o.verify, "check", true, "check every element of one result of each size")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line instead of the table")
	f.StringVar(&o.plot, "plot", "", "also draw busbw and time over size as SVG into this `file`")
	f.BoolVar(&o.markdown, "markdown", false, "print the comparison as tables in Markdown instead")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "limit of one operation, after which the run fails")
	return f
}

// count is a flag that takes a number or auto.
type count int

// String is for the flag package.
func (c *count) String() string {
	if *c == automatic {
		return "auto"
	}
	return strconv.Itoa(int(*c))
}

// Set reads a number or auto.
func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == "auto":
		n = automatic
	case err != nil || n < 0:
		return fmt.Errorf("%q is neither auto nor a number of iterations", text)
	}
	*c = count(n)
	return nil
}

// rankCounts is a flag of one or more numbers of ranks.
type rankCounts []int

// String is for the flag package.
func (c *rankCounts) String() string {
	var all []string
	for _, n := range *c {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// Set reads numbers with commas between them.
func (c *rankCounts) Set(text string) (err error) {
	*c, err = parseList(text, nil, strconv.Atoi)
	return err
}

// parseList reads a list with commas; all stands for every value.
func parseList[T any](text string, all []T, one func(string) (T, error)) ([]T, error) {
	if text == "all" {
		return all, nil
	}
	var list []T
	for name := range strings.SplitSeq(text, ",") {
		v, err := one(name)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func allOps() []colligo.ReduceOp {
	return []colligo.ReduceOp{colligo.Sum, colligo.Avg, colligo.Prod, colligo.Min, colligo.Max, colligo.BAnd,
		colligo.BOr, colligo.BXor, premul}
}
