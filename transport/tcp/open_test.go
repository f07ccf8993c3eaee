package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/journal"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// openAll opens ranks of one group, all at once, and returns what each got.
func openAll(t *testing.T, limit time.Duration, configs ...*transport.Config) ([]transport.Mesh, []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	meshes, errs := make([]transport.Mesh, len(configs)), make([]error, len(configs))
	var wg sync.WaitGroup
	for i, c := range configs {
		wg.Go(func() { meshes[i], errs[i] = Open(ctx, c) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, m := range meshes {
			if m != nil {
				wg.Go(func() { m.Close() })
			}
		}
		wg.Wait()
	})
	return meshes, errs
}

// group returns the configurations of a group.
func group(size int) []*transport.Config {
	r := transporttest.NewRendezvous()
	list := make([]*transport.Config, size)
	for rank := range list {
		list[rank] = &transport.Config{Rank: rank, Size: size, Group: 5, Name: "g", Lanes: 2, Secret: []byte("s"),
			Host: "127.0.0.1", Rendezvous: r}
	}
	return list
}

// patiently calls f with a longer limit each time until it holds. Ranks of a group that does not form wait a limit out, so it is short at
// first. They may need more of it than a busy machine lets them have.
func patiently(t *testing.T, f func(t require.TestingT, limit time.Duration)) {
	t.Helper()
	for limit := 400 * time.Millisecond; limit < 10*time.Second; limit *= 4 {
		var a attempt
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(&a, limit)
		}()
		if <-done; !a.failed {
			return
		}
	}
	f(t, 20*time.Second)
}

// attempt is a test that may fail.
type attempt struct{ failed bool }

func (a *attempt) Errorf(string, ...any) { a.failed = true }

func (a *attempt) FailNow() {
	a.failed = true
	runtime.Goexit()
}

// TestMismatch has rank 2 differ from the others: it is told by whom it reaches, and that rank tells too. A rank that it
// did not reach waits for as long as it was given.
func TestMismatch(t *testing.T) {
	for _, test := range []struct {
		name          string
		change        func(*transport.Config)
		theirs, other string // parts of the errors of rank 0 or 1, and of rank 2
	}{
		{"size", func(c *transport.Config) { c.Size = 8 }, "rank 2: rank 2 says the group has 8 ranks, here it has 3", "says the group has 3 ranks, here it has 8"},
		{"group", func(c *transport.Config) { c.Group = 6 }, "rank 2: rank 2 is of group 0x6, this is group 0x5", "is of group 0x5"},
		{"lanes", func(c *transport.Config) { c.Lanes = 1 }, "rank 2: has 1 lanes, here it is 2", "has 2 lanes, here it is 1"},
		{"frame", func(c *transport.Config) { c.FrameBytes = 64 }, "rank 2: has frames of 64 bytes", "here it is 64"},
		{"checksum", func(c *transport.Config) { c.Checksum = true }, "has checksums on, here they are off", "has checksums off"},
		{"compression", func(c *transport.Config) { c.Compression = "s2" }, "has compression s2, here it is off", "has compression off, here it is s2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			transporttest.NoLeaks(t)
			patiently(t, func(c require.TestingT, limit time.Duration) {
				configs := group(3)
				test.change(configs[2])
				_, errs := openAll(t, limit, configs...)
				require.ErrorContains(c, errs[2], test.other)
				require.Error(c, errs[0])
				require.Error(c, errs[1])
				require.ErrorContains(c, errors.Join(errs[0], errs[1]), test.theirs)
			})
		})
	}
}

// TestTwice has two processes of one rank: the second is told, and ends.
func TestTwice(t *testing.T) {
	transporttest.NoLeaks(t)
	patiently(t, func(c require.TestingT, limit time.Duration) {
		configs := group(3)
		configs[2].Rank = 1
		_, errs := openAll(t, limit, configs...)
		twice := 0
		for _, err := range errs[1:] {
			if strings.Contains(err.Error(), "rank 0: is linked with rank 1 already: two processes of one rank?") {
				twice++
			}
		}
		require.NotZero(c, twice)
	})
}

func TestWrongSecret(t *testing.T) {
	transporttest.NoLeaks(t)
	patiently(t, func(c require.TestingT, limit time.Duration) {
		configs := group(2)
		configs[1].Secret = []byte("of another run")
		var log bytes.Buffer
		configs[0].Log = slog.New(slog.NewTextHandler(&log, nil))
		_, errs := openAll(t, limit, configs...)
		require.ErrorContains(c, errs[1], "rank 1 cannot join group \"g\": rank 0: 127.0.0.1:")
		require.ErrorContains(c, errs[1], "has another secret: a group left over from another run, or another job?")
		require.ErrorIs(c, errs[0], context.DeadlineExceeded)
		require.ErrorContains(c, errs[0], "missing 1 of 1 peers: rank 1 has not dialed (0 of 3 connections)")
		require.Contains(c, log.String(), "says it is rank 1")
	})
}

func TestAbsent(t *testing.T) {
	transporttest.NoLeaks(t)
	patiently(t, func(c require.TestingT, limit time.Duration) {
		configs := group(4)
		_, errs := openAll(t, limit, configs[1], configs[2])
		late := 0
		for i, err := range errs {
			// Either its own time is up, or it was told a moment before that the other's was; the reason is the same.
			require.ErrorContains(c, err, "missing 2 of 3 peers: rank 0 has not answered (0 of 3 connections); rank 3 has not dialed")
			require.ErrorContains(c, err, context.DeadlineExceeded.Error())
			require.NotContains(c, err.Error(), "died")
			if errors.Is(err, context.DeadlineExceeded) {
				late++
				continue
			}
			require.ErrorIs(c, err, transport.ErrLost)
			require.ErrorContains(c, err, fmt.Sprintf("rank %d: while the group was forming: peer lost: gave up: tcp: rank %[1]d cannot join", 2-i))
		}
		require.NotZero(c, late)
	})
}

// TestDeadAddress publishes addresses where nobody, or somebody else, listens, before the right one.
func TestDeadAddress(t *testing.T) {
	transporttest.NoLeaks(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "220 mail.example.org ESMTP\r\n")
			conn.Close()
		}
	}()
	defer other.Close()
	configs := group(2)
	configs[0].Rendezvous = &prefixing{configs[0].Rendezvous, "127.0.0.1:1\n" + other.Addr().String() + "\n"}
	_, errs := openAll(t, time.Minute, configs...)
	require.NoError(t, errors.Join(errs...))
}

type prefixing struct {
	transport.Rendezvous
	prefix string
}

func (p *prefixing) Set(ctx context.Context, key string, value []byte) error {
	return p.Rendezvous.Set(ctx, key, append([]byte(p.prefix), value...))
}

// TestStrangers has strangers dial while a group forms. Some say nothing, little, or something else, and one goes at once.
// They are logged and do no harm. The other ranks come when the first stranger has been logged, for a group that has formed drops the rest
// in silence.
func TestStrangers(t *testing.T) {
	transporttest.NoLeaks(t)
	configs := group(3)
	var log journal.Journal
	configs[0].Log = log.Log()
	results := make(chan error, 3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	meshes := make([]transport.Mesh, 3)
	start := func(rank int) {
		go func() {
			var err error
			meshes[rank], err = Open(ctx, configs[rank])
			results <- err
		}()
	}
	start(0)
	addrs, err := lookUp(ctx, configs[0], 0)
	require.NoError(t, err)
	for _, said := range []string{"", "x", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x16\x03\x01", 100)} {
		for _, stay := range []bool{false, true} {
			conn, err := net.Dial("tcp", addrs[0])
			require.NoError(t, err)
			_, err = io.WriteString(conn, said)
			require.NoError(t, err)
			if stay {
				defer conn.Close()
			} else {
				conn.Close()
			}
		}
	}
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "not a rank of this library: it began with") },
		time.Minute, time.Millisecond)
	start(1)
	start(2)
	for range 3 {
		require.NoError(t, <-results)
	}
	var wg sync.WaitGroup
	for _, m := range meshes {
		wg.Go(func() { m.Close() })
	}
	wg.Wait()
}

// TestForming lets one rank of three, which are linked, give up while the others wait for a fourth: they hear of it at once.
func TestForming(t *testing.T) {
	transporttest.NoLeaks(t)
	configs := group(4) // rank 3 never comes
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	giveUp, stop := context.WithCancel(ctx)
	errs := make([]error, 3)
	var wg, links sync.WaitGroup
	links.Add(len(errs) * (len(errs) - 1)) // each rank with each other
	for rank := range errs {
		with := ctx
		if rank == 1 {
			with = giveUp
		}
		configs[rank].Events.Linked = func(int) { links.Done() }
		wg.Go(func() { _, errs[rank] = Open(with, configs[rank]) })
	}
	links.Wait()
	stop()
	start := time.Now()
	wg.Wait()
	require.Less(t, time.Since(start), time.Minute/2)
	require.ErrorIs(t, errs[1], context.Canceled)
	for _, rank := range []int{0, 2} {
		require.ErrorIs(t, errs[rank], transport.ErrLost)
		require.ErrorContains(t, errs[rank], "gave up: ")
		require.ErrorContains(t, errs[rank], "context canceled")
		require.NotContains(t, errs[rank].Error(), "died")
	}
}

func TestTLSMismatch(t *testing.T) {
	transporttest.NoLeaks(t)
	patiently(t, func(c require.TestingT, limit time.Duration) {
		configs := group(2)
		configs[0].TLS, configs[1].TLS = testTLS(t), testTLS(t)
		_, errs := openAll(t, limit, configs...)
		require.ErrorContains(c, errs[1], "rank 0: tls with 127.0.0.1:")
		require.Error(c, errs[0])

		configs = group(2)
		configs[1].TLS = testTLS(t)
		_, errs = openAll(t, limit, configs...)
		require.ErrorContains(c, errs[1], "rank 0: tls with 127.0.0.1:")
		require.Error(c, errs[0])
	})
}

func TestOpenRefuses(t *testing.T) {
	for _, change := range []func(*transport.Config){
		func(c *transport.Config) { c.Lanes = 0 },
		func(c *transport.Config) { c.Compression = "lzma" },
		func(c *transport.Config) { c.Host = "no.such.host.invalid" },
	} {
		c := group(2)[0]
		change(c)
		_, err := Open(context.Background(), c)
		require.Error(t, err)
	}
}
