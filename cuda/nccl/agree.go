package nccl

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
)

// Backend is a group's backend as Agree returns it.
type Backend interface {
	backend.Grouper
	backend.Tracker
	backend.Reader
	backend.Stager
	backend.Shared
	backend.Communicating
	backend.Selective
	// Version is the library's.
	Version() string
}

// OptionsOf returns the options that With has given to a context.
func OptionsOf(ctx context.Context) (o Options, given bool) {
	o, given = ctx.Value(optionsKey{}).(Options)
	return o, given
}

// Agree opens the backend on all ranks of a group, or on none. None does unless each has the same version of the library, and the
// library takes them all. Then the reason is returned, which is the same on all ranks, and no error. An error is one of the group. All
// ranks call it together. With an Options.Library of nil this rank has none.
func Agree(ctx context.Context, g backend.Host, d *cuda.Device, o Options) (b Backend, why string, err error) {
	a := &agreement{ctx: ctx, group: g, device: d, options: o}
	if why, err = a.meet(); why != "" || err != nil {
		return nil, why, err
	}
	c, why, err := a.form()
	if why != "" || err != nil {
		return nil, why, err
	}
	n := newBackend(context.Background(), g, a.options)
	if _, err := n.start(ctx, d.Place(), func(context.Context) (*Comm, error) { return c, nil }); err != nil {
		return nil, "", err
	}
	return n, "", nil
}

// agreement is how the ranks of a group find out whether NCCL carries them all.
type agreement struct {
	ctx     context.Context
	group   backend.Host
	device  *cuda.Device
	options Options
	id      UniqueID // rank 0's
}

// meet compares the libraries of the ranks, and hands out rank 0's identity.
func (a *agreement) meet() (why string, err error) {
	version, l := 0, a.options.Library
	if l != nil {
		version = l.version
		if a.group.Rank() == 0 {
			id, err := l.NewUniqueID()
			if err != nil {
				a.tell(err)
				version = 0
			}
			a.id = *id
		}
	}
	all, err := gather(a.ctx, a.group, append(binary.LittleEndian.AppendUint32(nil, uint32(version)), a.id[:]...))
	if err != nil {
		return "", err
	}
	a.id = UniqueID(all[0][4:])
	first := int(binary.LittleEndian.Uint32(all[0]))
	for q := range all {
		switch v := int(binary.LittleEndian.Uint32(all[q])); {
		case v == 0:
			return fmt.Sprintf("rank %d has no NCCL", q), nil
		case v != first:
			return fmt.Sprintf("rank 0 has NCCL %s, and rank %d has %s", FormatVersion(first), q, FormatVersion(v)), nil
		}
	}
	return "", nil
}

// longestForm bounds the time of making a communicator. Ranks wait for one that the library has refused.
const longestForm = 2 * time.Minute

// form makes the communicator, and gives it up unless all ranks could.
func (a *agreement) form() (c *Comm, why string, err error) {
	limit := min(cmp.Or(a.options.Timeout, a.group.Timeout()), longestForm)
	limited, cancel := context.WithTimeout(a.ctx, limit)
	defer cancel()
	c, refusal := apart(limited, a.device, a.group.Err, func() (*Comm, error) {
		c, err := a.options.Library.NewComm(&a.id, a.group.Rank(), a.group.Size(), a.options.Config)
		if err != nil {
			return nil, err
		}
		return c, c.settle(limited, a.group.Err)
	})
	made := byte(1)
	if refusal != nil {
		a.tell(refusal)
		made = 0
	}
	all, err := gather(a.ctx, a.group, []byte{made})
	for q, ok := range all {
		if ok[0] == 0 {
			why = fmt.Sprintf("NCCL refuses rank %d", q)
			break
		}
	}
	if why == "" && err == nil {
		return c, "", nil
	}
	if c != nil && c.handle != 0 {
		end := streamorder.OnDevice(a.device, func(cuda.Thread) error { return c.Abort() })
		if err != nil {
			err = errors.Join(err, end)
		}
	}
	return nil, why, err
}

// tell logs why this rank has no NCCL.
func (a *agreement) tell(err error) {
	a.group.Log().Info("no NCCL on this rank", "group", a.group.Name(), "rank", a.group.Rank(), "device", a.device.Place(), "error", err)
}

// gather returns the bytes of each rank, of which all have as many.
func gather(ctx context.Context, g backend.Host, own []byte) ([][]byte, error) {
	all := make([]byte, len(own)*g.Size())
	if err := backend.AllGather(ctx, g, colligo.Of(all), colligo.Of(own)); err != nil {
		return nil, fmt.Errorf("before NCCL: %w", err)
	}
	return slices.Collect(slices.Chunk(all, len(own))), nil
}

// Version implements Backend.
func (b *ncclBackend) Version() string { return b.library.Version() }
