package nccl

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/internal/hostid"
	"github.com/colligo-go/colligo/pg/backend"
)

// hostGroup is the group of one host's ranks, as their backend sees it. Its failures are the whole group's.
type hostGroup struct {
	partOf
	whole backend.Host
	ranks []int // of the whole group
}

// partOf is a group that backend.Host.Part has made. Its name leaves room for the method Dup.
type partOf interface{ backend.Dup }

// Fail implements backend.Host. The peers of the host hear of it first, for they may wait in this group. The numbers in an error are those
// of the host's group, so it says which ranks have them.
func (g *hostGroup) Fail(err error) {
	g.partOf.Fail(err)
	g.whole.Fail(fmt.Errorf("among the host's ranks %s, which are 0 to %d there: %w", join(g.ranks), len(g.ranks)-1, err))
}

// Err implements backend.Host.
func (g *hostGroup) Err() error { return cmp.Or(g.whole.Err(), g.partOf.Err()) }

// Log implements backend.Host.
func (g *hostGroup) Log() *slog.Logger { return g.whole.Log() }

// Timeout implements backend.Host.
func (g *hostGroup) Timeout() time.Duration { return g.whole.Timeout() }

// join prints ranks.
func join(ranks []int) string {
	var all []string
	for _, r := range ranks {
		all = append(all, strconv.Itoa(r))
	}
	return strings.Join(all, ", ")
}

// openLevels opens what two levels need, if a rule may take them and the ranks can. They can if several hosts have as many ranks each, which
// reach each other's memory there. All ranks call it together, and all have levels then or none.
func (b *ncclBackend) openLevels(ctx context.Context) error {
	if len(b.options.Rules) == 0 || b.torch != nil || b.size < 4 {
		return nil
	}
	hosts, rdma, why, err := b.meetHosts(ctx)
	if err != nil || why != "" || len(hosts) == 0 {
		b.sayFlat(why)
		return err
	}
	local := len(hosts[0])
	l := &levels{tenant: b.Tenant, hosts: len(hosts), size: local, counts: make([]int, local), rules: fitting(b.options.Rules, len(hosts), local, rdma)}
	if l.rules == nil {
		return nil
	}
	at := slices.IndexFunc(hosts, func(h []int) bool { return slices.Contains(h, b.rank) })
	l.index = slices.Index(hosts[at], b.rank)
	if why, err = b.openLocal(ctx, l, hosts[at]); err != nil || why != "" {
		b.sayFlat(why)
		return err
	}
	// Identities of a backend that another rank has opened for another device are under another number.
	if err := b.takeNumber(ctx); err != nil {
		return errors.Join(err, l.close())
	}
	rail, err := b.join(ctx, fmt.Sprint("rail", l.index), at, len(hosts))
	if err != nil {
		return errors.Join(fmt.Errorf("the communicator of rank %d of each host: %w", l.index, err), l.close())
	}
	rail.Limit, l.rail = b.limit(), rail
	b.levels = l
	if b.rank == 0 {
		b.group.Log().Info("all-reduces go in two levels, by the table", "group", b.group.Name(), "rank", b.rank, "hosts", l.hosts, "local", l.size,
			"rules", fmt.Sprint(l.rules))
	}
	return nil
}

// sayFlat tells once why there are no levels, if it has a reason.
func (b *ncclBackend) sayFlat(why string) {
	if why != "" && b.rank == 0 {
		b.group.Log().Warn("all-reduces between hosts go in one level, by NCCL alone: "+why, "group", b.group.Name(), "rank", b.rank)
	}
}

// Flags of what a rank says of itself.
const (
	isAble  = 1 << iota // it has the backend, and knows its host
	hasRDMA             // its host has an adapter other than sockets
)

// meetHosts returns the ranks of each host, the hosts in the order of their first ranks, and whether one has an adapter other than sockets.
// It returns no hosts where two levels would be of no use. Where the ranks cannot have two levels it says why.
func (b *ncclBackend) meetHosts(ctx context.Context) (hosts [][]int, rdma bool, why string, err error) {
	id := hostid.Of(ctx)
	own := sha256.Sum256([]byte(id + "/" + hostVariable()))
	var flags byte
	if backend.Open(colligo.CUDA, backend.Native) != nil && id != "" {
		flags |= isAble
	}
	if hostid.RDMA(ctx) {
		flags |= hasRDMA
	}
	all, err := gather(ctx, b.group, append(own[:], flags))
	if err != nil {
		return nil, false, "", err
	}
	var ids [][]byte
	for r, x := range all {
		id, flags := x[:len(own)], x[len(own)]
		if flags&isAble == 0 {
			return nil, false, fmt.Sprintf("rank %d has no backend %s, or does not know its host", r, backend.Native), nil
		}
		rdma = rdma || flags&hasRDMA != 0
		i := slices.IndexFunc(ids, func(x []byte) bool { return bytes.Equal(id, x) })
		if i < 0 {
			i, ids, hosts = len(ids), append(ids, id), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], r)
	}
	least, most := len(hosts[0]), len(hosts[0])
	for _, h := range hosts {
		least, most = min(least, len(h)), max(most, len(h))
	}
	switch {
	case len(hosts) == 1 || most == 1:
		return nil, rdma, "", nil
	case least != most:
		return nil, rdma, fmt.Sprintf("a host has %d ranks, and another one %d", least, most), nil
	}
	return hosts, rdma, "", nil
}

// openLocal opens the backend of a host's ranks. Unless all ranks have theirs, it closes this rank's.
func (b *ncclBackend) openLocal(ctx context.Context, l *levels, ranks []int) (why string, err error) {
	dup, err := b.group.Part(ctx, ranks, b.limit())
	if err != nil {
		return "", fmt.Errorf("a group of the host's ranks: %w", err)
	}
	l.group = &hostGroup{partOf: dup, whole: b.group, ranks: ranks}
	l.local, err = backend.Open(colligo.CUDA, backend.Native)(backend.ForSteps(ctx), l.group, b.device.Place())
	apart := errors.Is(err, backend.ErrApart)
	if err != nil && !apart {
		return "", errors.Join(err, l.close())
	}
	opened := byte(1)
	if apart {
		opened = 0
		b.group.Log().Info("no two levels on this rank", "group", b.group.Name(), "rank", b.rank, "error", err)
	}
	all, err := gather(ctx, b.group, []byte{opened})
	if err != nil {
		return "", errors.Join(err, l.close())
	}
	if q := slices.IndexFunc(all, func(x []byte) bool { return x[0] == 0 }); q >= 0 {
		return fmt.Sprintf("rank %d does not reach the memory of the other ranks of its host", q), l.close()
	}
	return "", nil
}

// close gives back what openLocal has made.
func (l *levels) close() error {
	var errs []error
	if l.local != nil {
		errs = append(errs, l.local.Close())
		l.local = nil
	}
	if l.group != nil {
		errs = append(errs, l.group.partOf.Close())
		l.group = nil
	}
	return errors.Join(errs...)
}
