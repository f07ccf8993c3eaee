package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// record is one measured size, as a line of -json shows it.
type record struct {
	Collective string  `json:"collective"`
	Device     string  `json:"device"`
	Transport  string  `json:"transport"`
	Algo       string  `json:"algo"`
	DType      string  `json:"dtype"`
	Op         string  `json:"op"`
	Ranks      int     `json:"ranks"`
	Graph      int     `json:"graph,omitempty"` // operations of a captured graph
	Bytes      int     `json:"bytes"`
	TimeUS     float64 `json:"time_us"`
	MinUS      float64 `json:"min_us"`
	MaxUS      float64 `json:"max_us"`
	AlgBW      float64 `json:"algbw_gbps"` // 10^9 bytes per second
	BusBW      float64 `json:"busbw_gbps"`
	Wrong      *int64  `json:"wrong"` // null with -check=false

	// With -compare openmpi or gloo, where the library has the same operation.
	Peer       string   `json:"peer,omitempty"`
	PeerTimeUS *float64 `json:"peer_time_us,omitempty"`
	PeerMinUS  *float64 `json:"peer_min_us,omitempty"`
	PeerMaxUS  *float64 `json:"peer_max_us,omitempty"`
	PeerBusBW  *float64 `json:"peer_busbw_gbps,omitempty"`

	// With -compare nccl, where NCCL has the same operation.
	NCCLTimeUS *float64 `json:"nccl_time_us,omitempty"`
	NCCLBusBW  *float64 `json:"nccl_busbw_gbps,omitempty"`
	Ratio      *float64 `json:"ratio,omitempty"` // time of NCCL, or of the other library / time
}

// report prints what rank 0 has gathered. The zero report, of other ranks, prints nothing.
type report struct {
	options  *options
	group    *pg.Group
	env      *environment
	variant  *variant
	tuning   *timings // with -tune, which takes the place of lines
	out      io.Writer
	progress *progress
	plot     *os.File
	records  []record
	wrong    int64
}

func (s *session) newReport(g *pg.Group, at *environment, v *variant, cases []testCase) (*report, error) {
	o, p := s.options, s.process
	r := &report{options: o, group: g, env: at, variant: v, out: p.stdout}
	s.last = r
	total := 0
	for _, c := range cases {
		total += len(o.sizes(c.collective))
	}
	if terminal(p.stderr) {
		r.progress = &progress{to: p.stderr, total: total}
	}
	if o.plot != "" {
		var err error
		if r.plot, err = os.Create(o.plot); err != nil {
			return nil, fmt.Errorf("-plot: %w", err)
		}
	}
	switch {
	case o.tune:
		r.tuning = &s.tuning
		fmt.Fprintf(p.stderr, "bench: measures %s\n", v.label)
		return r, nil
	case o.json:
		for _, line := range r.method() {
			fmt.Fprintf(p.stderr, "bench: %s\n", line)
		}
		return r, nil
	}
	return r, r.head()
}

// medium is the transport that the group uses.
func (r *report) medium() string {
	if t := r.options.transport; t == inProcess || t == nccl.Name {
		return t
	}
	return r.group.Transport()
}

// begin tells what is measured next.
func (r *report) begin(c testCase, bytes int) {
	if r.progress != nil {
		r.progress.next(fmt.Sprintf("%s %s %s", c.name, c.typeName(), formatSize(bytes)))
	}
}

// row is one measured size.
type row struct {
	testCase
	count, bytes int
	took         timing
	baseline     *timing // of the library that is compared, nil without
	wrong        int64
}

// record returns the line of -json.
func (r *report) record(x row) record {
	ranks := r.options.ranks
	algbw := float64(x.bytes) / x.took.time / 1e3
	rec := record{Collective: x.name, Device: r.options.device, Transport: r.medium(), Algo: r.algorithm(x), DType: x.typeName(),
		Op: x.opName(), Ranks: ranks, Graph: r.options.graph, Bytes: x.bytes, TimeUS: x.took.time, MinUS: x.took.least,
		MaxUS: x.took.most, AlgBW: algbw, BusBW: algbw * x.bus(ranks)}
	if r.options.verify {
		rec.Wrong = &x.wrong
	}
	if x.baseline != nil {
		busbw, ratio := float64(x.bytes)/x.baseline.time/1e3*x.bus(ranks), x.baseline.time/x.took.time
		if e := r.env.external; e != nil {
			rec.Peer, rec.PeerTimeUS, rec.PeerMinUS, rec.PeerMaxUS = e.name, &x.baseline.time, &x.baseline.least, &x.baseline.most
			rec.PeerBusBW, rec.Ratio = &busbw, &ratio
			return rec
		}
		rec.NCCLTimeUS, rec.NCCLBusBW, rec.Ratio = &x.baseline.time, &busbw, &ratio
	}
	return rec
}

// algorithm returns the name of what the table picks.
func (r *report) algorithm(x row) string {
	switch {
	case x.coll == plan.Send:
		return "pair"
	case r.options.transport == nccl.Name && nccl.Plans(r.options.plans(), x.coll):
		return r.options.plans()
	case r.options.levels() != nil && x.coll == plan.AllReduce && r.group.Metrics().Carried[nccl.TwoLevel] > 0:
		return nccl.TwoLevel
	case r.options.device == onCUDA && r.options.onNCCL() && x.coll != barrier:
		return nccl.Name // which picks among its own algorithms
	case r.options.device == onCUDA && x.coll != barrier:
		return algorithmOf(r.variant.rules, x.coll, r.options.ranks, r.options.keyOf(x.testCase, x.count, x.bytes),
			r.options.register, r.options.graph > 0)
	}
	return r.group.Algorithm(x.coll, x.bytes)
}

// row prints one measured size.
func (r *report) row(x row) error {
	rec := r.record(x)
	r.wrong += x.wrong
	r.progress.clear()
	if r.tuning != nil {
		bytes := r.options.keyOf(x.testCase, x.count, x.bytes)
		us, most := rec.TimeUS, rec.MaxUS
		if r.options.device != onCUDA { // other programs can only make a batch slower
			us, most = rec.MinUS, rec.TimeUS
		}
		r.tuning.add(r.variant, x.coll, bytes, us)
		r.tuning.widen(r.variant, x.coll, bytes, rec.MinUS, most)
		return nil
	}
	r.records = append(r.records, rec)
	if r.options.json {
		return json.NewEncoder(r.out).Encode(rec)
	}
	root := -1
	if x.rooted {
		root = r.options.root
	}
	return r.line(rec, x.count, root)
}

// close ends the table and writes the plot.
func (r *report) close() error {
	r.progress.clear()
	var err error
	if !r.options.json && len(r.records) > 0 {
		err = r.foot()
	}
	if r.plot != nil {
		err = errors.Join(err, drawPlot(r.plot, r.records), r.plot.Close())
	}
	return err
}
