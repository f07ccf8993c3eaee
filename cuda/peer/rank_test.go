package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// rank is one rank of a test: a group's handle, a device, a stream and an arena of device memory. Inputs lie in the first
// half of the arena, outputs in the second.
type rank struct {
	g      *pg.Group
	device *cuda.Device
	stream cuda.Stream
	ctx    context.Context // with the stream
	arena  cuda.Pointer
	half   int
	host   *cuda.Host
}

const margin = 256 // bytes around outputs that must not change

func newRank(ctx context.Context, g *pg.Group, d *cuda.Driver, index, half int, o Options) (*rank, error) {
	r := &rank{g: g, half: half}
	o.Driver = d
	var err error
	if r.device, err = d.Device(index); err != nil {
		return nil, err
	}
	t, err := r.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	if r.stream, err = t.NewStream(0); err != nil {
		return nil, err
	}
	if r.arena, err = t.Alloc(2 * half); err != nil {
		return nil, err
	}
	if r.host, err = t.AllocHost(half); err != nil {
		return nil, err
	}
	r.ctx = OnStream(With(ctx, o), r.stream)
	return r, nil
}

func (r *rank) close() error {
	err := r.g.Close()
	t, err2 := r.device.Enter()
	if err2 != nil {
		return errors.Join(err, err2)
	}
	err = errors.Join(err, t.Free(r.arena), t.FreeHost(r.host), t.DestroyStream(r.stream))
	t.Leave()
	return errors.Join(err, r.device.Close())
}

// tensor views n elements of the arena's input half (0) or output half (1), shift elements from alignment.
func (r *rank) tensor(half int, d colligo.DType, shift, n int) colligo.Tensor {
	at := r.arena + cuda.Pointer(half*r.half+margin+shift*d.Size())
	return colligo.OnDevice(r.device.Place(), uintptr(at), n, d)
}

// put copies data to the device, with a margin of canaries around.
func (r *rank) put(to colligo.Tensor, data []byte) error {
	if len(data)+2*margin > len(r.host.Bytes) || len(data) != to.Size() {
		panic(fmt.Sprintf("peer test: %d bytes into %v, room for %d", len(data), to, len(r.host.Bytes)))
	}
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	b := r.host.Bytes[:len(data)+2*margin]
	frame(b, data)
	if err := t.Copy(cuda.Pointer(to.Addr())-margin, r.host.Device, len(b), r.stream); err != nil {
		return err
	}
	return t.Synchronize(r.stream)
}

const canary = 0xa5

// frame puts data between canaries. Like equalBytes it looks at memory that is the rank's alone. So Go's race detector is kept from it, which
// would take most of the time of a rank's host.
//
//go:norace
func frame(b, data []byte) {
	for i := range margin {
		b[i], b[len(b)-1-i] = canary, canary
	}
	copyData(b[margin:], data)
}

// copyData copies the bytes of one slice to the start of another. Under the detector it does so in words, for it sees into copy.
//
//go:norace
func copyData(to, from []byte) {
	if !underRace {
		copy(to, from)
		return
	}
	from = from[:min(len(to), len(from))]
	for ; len(from) >= 8; to, from = to[8:], from[8:] {
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
	}
	for i := range from {
		v := from[i]
		to[i] = v
	}
}

// equalBytes reports whether bytes are equal.
//
//go:norace
func equalBytes(a, b []byte) bool {
	if !underRace || len(a) != len(b) {
		return bytes.Equal(a, b)
	}
	for ; len(a) >= 8; a, b = a[8:], b[8:] {
		if binary.LittleEndian.Uint64(a) != binary.LittleEndian.Uint64(b) {
			return false
		}
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// framed reports whether the canaries around data are as frame has put them.
//
//go:norace
func framed(b []byte) bool {
	for i := range margin {
		if b[i] != canary || b[len(b)-1-i] != canary {
			return false
		}
	}
	return true
}

// get waits for the stream and copies from the device. It fails if a canary has changed. The bytes are good until the next put or get.
func (r *rank) get(from colligo.Tensor) ([]byte, error) {
	t, err := r.device.Enter()
	if err != nil {
		return nil, err
	}
	defer t.Leave()
	n := from.Size() + 2*margin
	if err := t.Copy(r.host.Device, cuda.Pointer(from.Addr())-margin, n, r.stream); err != nil {
		return nil, err
	}
	if err := t.Synchronize(r.stream); err != nil {
		return nil, err
	}
	b := r.host.Bytes[:n]
	if !framed(b) {
		return nil, fmt.Errorf("memory around %v was overwritten", from)
	}
	return b[margin : n-margin], nil
}

// expect compares a tensor with what it should be.
func (r *rank) expect(what string, from colligo.Tensor, want []byte) error {
	got, err := r.get(from)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if equalBytes(got, want) {
		return nil
	}
	size, wrong, first := from.DType().Size(), 0, -1
	for i := 0; i < len(want); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			if wrong++; first < 0 {
				first = i / size
			}
		}
	}
	return fmt.Errorf("%s: %d of %d elements are wrong, first is %d: %x, not %x", what, wrong, from.Len(), first,
		got[first*size:first*size+size], want[first*size:first*size+size])
}

// onRanks calls f for each rank of a group in this process at once.
func onRanks(t testing.TB, d *cuda.Driver, size, devices, half int, o Options, f func(*rank) error) {
	t.Helper()
	onDrivers(t, func(int) *cuda.Driver { return d }, size, devices, half, o, f)
}

// onDrivers calls f for each rank of a group at once. Each rank has a driver of its own, as if it were a process. Ranks wait
// long for one another when they close, however busy the machine is.
func onDrivers(t testing.TB, driver func(rank int) *cuda.Driver, size, devices, half int, o Options, f func(*rank) error) {
	t.Helper()
	o.farewell = time.Minute
	groups, err := pg.InProcess(t.Context(), size, pg.Config{})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, size)
	for i, g := range groups {
		go func() { errs <- life(t.Context(), g, driver(i), i%devices, half, o, f) }()
	}
	for range size {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// life is what one rank does.
func life(ctx context.Context, g *pg.Group, d *cuda.Driver, device, half int, o Options, f func(*rank) error) error {
	r, err := newRank(ctx, g, d, device, half, o)
	if err != nil {
		return errors.Join(fmt.Errorf("rank %d: %w", g.Rank(), err), g.Close())
	}
	if err = f(r); err != nil {
		err = fmt.Errorf("rank %d: %w", g.Rank(), err)
		g.Abort(err)
	}
	return errors.Join(err, r.close())
}

// first returns the first error of calls, and makes none after the call that had it.
func first(err error, calls ...func() error) error {
	for _, call := range calls {
		if err != nil {
			return err
		}
		err = call()
	}
	return err
}
