package pg

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/transport"
)

// held is a log that stops who writes into it until the test says go on.
type held struct {
	slog.Handler
	writes, goOn chan struct{}
}

func (h *held) Enabled(context.Context, slog.Level) bool { return true }

func (h *held) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "group failed" {
		close(h.writes)
		<-h.goOn
	}
	return nil
}

// attended is a backend that waits at its end for a goroutine of its own.
type attended struct {
	still
	closing chan struct{}
	ended   chan struct{}
}

func (a *attended) Close() error {
	close(a.closing)
	<-a.ended
	return nil
}

// TestFailBesideClose closes a group while a goroutine of its backend is failing it: the one waits for the other.
func TestFailBesideClose(t *testing.T) {
	log := &held{writes: make(chan struct{}), goOn: make(chan struct{})}
	g, _, _ := stillGroup(t, func(c *Config) { c.Log = slog.New(log) })
	b := &attended{closing: make(chan struct{}), ended: make(chan struct{})}
	g.devices.put(colligo.Device{Kind: hanging}, b)
	go func() {
		g.fail(errors.New("met by the backend"), true)
		close(b.ended)
	}()
	<-log.writes
	closed := make(chan error, 1)
	go func() { closed <- g.Close() }()
	<-b.closing
	close(log.goOn)
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("Close and Fail wait for each other")
	}
}

// TestCloseBesideFailure closes a group before what failed it has come to the dump: that is written all the same.
func TestCloseBesideFailure(t *testing.T) {
	dir := t.TempDir()
	log := &held{writes: make(chan struct{}), goOn: make(chan struct{})} // on the way from the error to the dump
	g, _, _ := stillGroup(t, func(c *Config) {
		c.Recorder.DumpOnError, c.Recorder.DumpFile, c.Log = On, dir+"/", slog.New(log)
	})
	failed, closed := make(chan struct{}), make(chan struct{})
	go func() {
		g.fail(errors.New("enough"), true)
		close(failed)
	}()
	<-log.writes
	require.Error(t, g.Err())
	go func() {
		_ = g.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(100 * time.Millisecond): // it may wait
	}
	close(log.goOn)
	<-failed
	<-closed
	files, err := flight.Files(dir, "")
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// Kinds of device whose backends are opened once, by one test each.
const (
	lostWhileOpening   colligo.DeviceKind = 201
	failedWhileOpening colligo.DeviceKind = 202
)

// TestLostWhileOpening has a peer die while the backend for the first call is being opened. The call would wait for the peer
// on the device. It fails, and does not wait for its timeout.
func TestLostWhileOpening(t *testing.T) {
	backend.Register(lostWhileOpening, backend.Native, func(_ context.Context, h backend.Host, _ colligo.Device) (backend.Backend, error) {
		h.(*seam).g.onLost(1, transport.ErrLost)
		return &still{}, nil
	})
	x := colligo.OnDevice(colligo.Device{Kind: lostWhileOpening}, 4096, 4, colligo.Float32)
	for _, call := range []func(g *Group) *Work{
		func(g *Group) *Work { return g.AllReduceAsync(t.Context(), x, colligo.Sum) },
		func(g *Group) *Work {
			return g.AllReduceCoalescedAsync(t.Context(), []colligo.Tensor{x, x}, colligo.Sum)
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := call(inProcess(t, 2, quiet)[0]).Synchronize(ctx)
		require.ErrorIs(t, err, colligo.ErrPeerLost)
	}
}

// TestFailedWhileOpening has the group fail while a backend is being opened: it is told, unless devices are to stay as they are.
func TestFailedWhileOpening(t *testing.T) {
	var s *still
	backend.Register(failedWhileOpening, backend.Native, func(_ context.Context, h backend.Host, _ colligo.Device) (backend.Backend, error) {
		h.Fail(errors.New("too soon"))
		s = &still{}
		return s, nil
	})
	for mode, told := range map[ErrorMode]bool{CleanUp: true, NoHandling: false} {
		c := quiet
		c.Watchdog.OnError = mode
		g := inProcess(t, 1, c)[0]
		_, err := BackendOf(t.Context(), g, colligo.Device{Kind: failedWhileOpening})
		require.NoError(t, err)
		require.Equal(t, told, s.err.Load() != nil, mode)
	}
}
