package pg_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// BenchmarkCall measures what a blocking call costs a rank besides the link and the wait for its peer. The mesh of each rank gives the
// rank's own frames back, as if the peer called the same with the same tensors.
func BenchmarkCall(b *testing.B) {
	for _, recorder := range []struct {
		name    string
		options pg.RecorderOptions
	}{{"on", pg.RecorderOptions{}}, {"off", pg.RecorderOptions{Entries: -1}}} {
		b.Run("recorder="+recorder.name, func(b *testing.B) {
			g := mirrored(b, recorder.options)
			x, all := colligo.Of([]float32{1, 2}), colligo.Of(make([]float32, 4))
			for _, call := range []struct {
				name string
				do   func(context.Context) error
			}{
				{"all_reduce", func(ctx context.Context) error { return g.AllReduce(ctx, x, colligo.Max) }},
				{"all_gather", func(ctx context.Context) error { return g.AllGatherIntoTensor(ctx, all, x) }},
				{"barrier", func(ctx context.Context) error { return g.Barrier(ctx) }},
			} {
				for name, ctx := range map[string]context.Context{"": context.Background(), "/cancelable": b.Context()} {
					b.Run(call.name+name, func(b *testing.B) {
						b.ReportAllocs()
						for b.Loop() {
							if err := call.do(ctx); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		})
	}
}

// mirrored returns rank 0 of a group of two ranks with mirrors for meshes.
func mirrored(b *testing.B, recorder pg.RecorderOptions) *pg.Group {
	s, groups, errs := store.NewHash(), make([]*pg.Group, 2), make(chan error, 2)
	for rank := range groups {
		go func() {
			var err error
			groups[rank], err = pg.Init(b.Context(), pg.Config{Store: s, Rank: rank, Size: 2, Open: openMirror, Recorder: recorder,
				Log: slog.New(slog.DiscardHandler)})
			errs <- err
		}()
	}
	require.NoError(b, <-errs)
	require.NoError(b, <-errs)
	b.Cleanup(func() {
		for _, g := range groups {
			require.NoError(b, g.Close())
		}
	})
	return groups[0]
}

// mirror is the mesh of one of two ranks. It gives the rank its own frames, and holds one of each lane.
type mirror struct {
	head [transport.MaxLanes]transport.Header
	body [transport.MaxLanes][]byte
	have [transport.MaxLanes]bool
}

const mirrorFrame = 1 << 10

func openMirror(context.Context, *transport.Config) (transport.Mesh, error) {
	m := &mirror{}
	for lane := range m.body {
		m.body[lane] = make([]byte, mirrorFrame)
	}
	return m, nil
}

func (m *mirror) Link(int) transport.Link  { return m }
func (m *mirror) Notify(int, []byte) error { return nil }
func (m *mirror) Wait(int, time.Time)      {}
func (m *mirror) Wake()                    {}
func (m *mirror) String() string           { return "shm" } // whose algorithms are picked
func (m *mirror) Close() error             { return nil }
func (m *mirror) MaxFrame() int            { return mirrorFrame }
func (m *mirror) Slot(lane, n int) []byte  { return m.body[lane][:min(n, mirrorFrame)] }
func (m *mirror) Release(lane int)         { m.have[lane] = false }

// Send implements transport.Link.
func (m *mirror) Send(h *transport.Header, p []byte) (bool, error) {
	if m.have[h.Lane] {
		return false, nil
	}
	m.head[h.Lane], m.have[h.Lane] = *h, true
	copy(m.body[h.Lane], p)
	return true, nil
}

// Head implements transport.Link.
func (m *mirror) Head(lane int) (*transport.Header, error) {
	if !m.have[lane] {
		return nil, nil
	}
	return &m.head[lane], nil
}

// Body implements transport.Link.
func (m *mirror) Body(lane int, dst []byte) ([]byte, bool, error) {
	p := m.body[lane][:m.head[lane].Len]
	if dst != nil {
		copy(dst, p)
		p = dst
	}
	return p, true, nil
}
