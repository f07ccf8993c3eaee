package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// errWrong is wrapped by the error of a rank whose results are not right, though all went through.
var errWrong = errors.New("wrong elements")

// runRank is one process of several: it joins a group of the environment for each variant, and measures.
func runRank(o *options, p process) error {
	ctx := context.Background()
	variants, err := o.variants()
	if err != nil {
		return err
	}
	run := &session{options: o, process: p}
	return run.rounds(variants, func(v *variant, i int) error {
		g, err := pg.Init(ctx, o.config(v, i))
		if err != nil {
			return err
		}
		s, err := run.serve(ctx, g, v)
		return errors.Join(err, g.Close(), s.close())
	})
}

// runInProcess runs all ranks in this process.
func runInProcess(o *options, p process) error {
	variants, err := o.variants()
	if err != nil {
		return err
	}
	run := &session{options: o, process: p}
	return run.rounds(variants, run.together)
}

// rounds runs the variants one after another, as often as -rounds says.
func (r *session) rounds(variants []*variant, run func(v *variant, i int) error) error {
	for round := range r.options.rounds {
		for i, v := range variants {
			if err := run(v, round*len(variants)+i); err != nil {
				return err
			}
		}
		r.tuning.endRound()
	}
	return r.end()
}

// session is one run of the program, over all variants.
type session struct {
	*options
	process process
	tuning  timings
	last    *report // of rank 0
}

// end prints what the variants have shown together.
func (r *session) end() error {
	if !r.tune || r.last == nil {
		return nil
	}
	all := r.tuning.best
	if err := all.print(r.process.stdout, r.last); err != nil || r.tuned == "" {
		return err
	}
	return all.write(r.tuned, r.last)
}

// together runs all ranks of a variant.
func (r *session) together(v *variant, i int) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	groups, err := r.groups(ctx, r.config(v, i))
	if err != nil {
		return err
	}
	environments := make([]*environment, len(groups))
	failed := make(chan error, len(groups))
	for rank, g := range groups {
		go func() {
			var err error
			environments[rank], err = r.serve(ctx, g, v)
			failed <- err
		}()
	}
	for range groups {
		e := <-failed
		if e != nil && err == nil {
			err = e // what fails after the first is a consequence
		}
		if e != nil && !errors.Is(e, errWrong) { // the others of a rank with wrong elements still have to print them
			cancel(e)
		}
	}
	for _, g := range groups {
		err = errors.Join(err, g.Close())
	}
	for _, s := range environments {
		err = errors.Join(err, s.close())
	}
	return err
}

// groups makes a group of ranks in this process: over a transport as between processes, or over channels.
func (r *session) groups(ctx context.Context, c pg.Config) ([]*pg.Group, error) {
	if r.transport == inProcess {
		return pg.InProcess(ctx, r.ranks, c)
	}
	c.Store, c.Size = store.NewHash(), r.ranks
	groups, errs := make([]*pg.Group, r.ranks), make(chan error, r.ranks)
	for rank := range groups {
		go func() {
			c := c
			c.Rank = rank
			var err error
			groups[rank], err = pg.Init(ctx, c)
			errs <- err
		}()
	}
	var err error
	for range groups {
		err = errors.Join(err, <-errs)
	}
	if err == nil {
		return groups, nil
	}
	for _, g := range groups {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
	}
	return nil, err
}

// config is that of a variant's group; the first has pg's own name.
func (o *options) config(v *variant, i int) pg.Config {
	c := pg.Config{Algo: v.algo, Tuning: o.rules, Timeout: o.timeout}
	if i > 0 {
		c.Name = fmt.Sprintf("tune-%d", i)
	}
	switch o.transport {
	case inProcess:
	case nccl.Name: // between the GPUs; the ranks meet as they can
		c.Transport = "auto"
	default:
		c.Transport = o.transport
	}
	switch {
	case o.onNCCL():
		c.Backends = "cpu:host,cuda:" + nccl.Name
	case o.backend != "":
		c.Backends = "cpu:host,cuda:" + o.backend
	}
	return c
}

// serve is a rank's part of a variant, but for the closing of group and environment.
func (r *session) serve(ctx context.Context, g *pg.Group, v *variant) (*environment, error) {
	s, ctx, err := r.openEnvironment(ctx, g, v, r.process)
	if err == nil {
		err = r.benchmark(ctx, g, s, v)
	}
	failed := err != nil && !errors.Is(err, errWrong)
	if failed && s.gpu != nil {
		g.Abort(err) // peers may wait on their devices for what this one was to enqueue
	}
	return s, errors.Join(err, s.leave(failed))
}

// benchmark runs every case and size on this rank. Rank 0 reports.
func (r *session) benchmark(ctx context.Context, g *pg.Group, s *environment, v *variant) (err error) {
	cases, err := r.cases()
	if err != nil {
		return err
	}
	out := &report{}
	if g.Rank() == 0 {
		if out, err = r.newReport(g, s, v, cases); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.close()) }()
	}
	run := &runner{options: r.options, group: g, env: s, report: out}
	for _, c := range cases {
		if err := run.sizes(ctx, c, v); err != nil {
			return err
		}
	}
	if run.wrong > 0 {
		return fmt.Errorf("rank %d has %d %w", g.Rank(), run.wrong, errWrong)
	}
	return nil
}
