package apart

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/staged"
	"github.com/colligo-go/colligo/pg/backend"
)

// Open makes the backend of a group on a device, which it closes at its end. All ranks call it together. Options of nccl.With say
// which library there is. Without them it is the machine's, for the machine's own driver.
func Open(ctx context.Context, g backend.Host, d *cuda.Device, o staged.Options) (backend.Backend, error) {
	if o.Wanted {
		return stage(ctx, g, d, o)
	}
	b, why, err := nccl.Agree(ctx, g, d, library(ctx, g, &o))
	switch {
	case err != nil:
		err = fmt.Errorf("rank %d on %v: %w", g.Rank(), d, err)
		g.Fail(err)
		return nil, errors.Join(err, d.Close())
	case b == nil:
		o.Why += ", and " + why
		return stage(ctx, g, d, o)
	}
	if g.Rank() == 0 {
		g.Log().Warn(o.Why+": NCCL "+b.Version()+" carries the collectives, and messages are staged over "+g.Transport(), "group", g.Name(),
			"rank", g.Rank())
	}
	o.Beside = true
	rest, err := staged.Open(ctx, g, d, o)
	if err != nil {
		b.Abort(err)
		return nil, errors.Join(err, b.Close())
	}
	return &either{Pair: streamorder.MakePair(d, b, rest), nccl: b, group: g}, nil
}

// stage opens the backend that stages everything.
func stage(ctx context.Context, g backend.Host, d *cuda.Device, o staged.Options) (backend.Backend, error) {
	b, err := staged.Open(ctx, g, d, o)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// library finds this rank's library. There is none for a driver that is not the machine's, unless the program names one.
func library(ctx context.Context, g backend.Host, o *staged.Options) nccl.Options {
	options, _ := nccl.OptionsOf(ctx)
	options.Driver, options.Timeout = o.Driver, o.Timeout
	if options.Library != nil {
		return options
	}
	if machine, err := cuda.Open(); err != nil || machine != o.Driver {
		return options
	}
	var err error
	if options.Library, err = nccl.Open(""); err != nil {
		g.Log().Debug("no NCCL on this rank", "group", g.Name(), "rank", g.Rank(), "error", err)
	}
	return options
}
