package gloo

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport/internal/stream"
)

// TestHeadsWithinPayload has a rank announce a message and post a receive while its peer takes a long payload slowly. Their heads follow
// the payload.
func TestHeadsWithinPayload(t *testing.T) {
	for name, change := range ways(t) {
		t.Run(name, func(t *testing.T) {
			if name == "ipv6" {
				requireIPv6(t)
			}
			const long, short = 32 << 20, 1000
			meshes := open(t, 2, func(c *Config) {
				if c.copies = true; change != nil { // which have payloads in the connection
					change(c)
				}
			})
			var first, second Send
			var into, back Receive
			payload := pattern(0, long)
			require.NoError(t, meshes[1].Post(&into, 0, 5, long))
			require.NoError(t, meshes[1].Flush())
			require.NoError(t, meshes[0].Announce(&first, 1, 5, long))
			require.NoError(t, drive(meshes[0], func() (bool, error) {
				ok, err := meshes[0].Write(&first, payload)
				return !ok && meshes[0].pairs[1].partial > 0, err
			}))
			require.NoError(t, meshes[0].Announce(&second, 1, 6, short))
			require.NoError(t, meshes[0].Post(&back, 1, 7, short))
			errs := make([]error, 2)
			var all sync.WaitGroup
			all.Go(func() {
				got := make([]byte, short)
				errs[0] = errors.Join(drive(meshes[0], func() (bool, error) { return meshes[0].Write(&first, payload) }),
					drive(meshes[0], func() (bool, error) { return meshes[0].Write(&second, payload[:short]) }), take(meshes[0], &back, got, true))
				require.Equal(t, pattern(1, short), got)
			})
			all.Go(func() {
				got := make([]byte, long)
				errs[1] = take(meshes[1], &into, got, true)
				require.True(t, bytes.Equal(payload, got))
				_, err := get(meshes[1], 0, 6, got[:short], true)
				errs[1] = errors.Join(errs[1], err, put(meshes[1], 0, 7, pattern(1, short)))
				require.Equal(t, payload[:short], got[:short])
			})
			all.Wait()
			require.NoError(t, errors.Join(errs...))
		})
	}
}

// writes counts the writes to a stream. The first read waits until something has come.
type writes struct {
	stream.Stream
	n    int
	read bool
}

func (w *writes) Read(bufs [][]byte) (n int, err error) {
	for until := time.Now().Add(time.Minute); n == 0 && err == nil && time.Now().Before(until); time.Sleep(time.Millisecond) {
		if n, err = w.Stream.Read(bufs); w.read {
			break
		}
	}
	w.read = true
	return n, err
}

func (w *writes) Write(bufs [][]byte) (int, error) {
	w.n++
	return w.Stream.Write(bufs)
}

// TestNoticesGoAlong has the notices of a rank leave in one write with a payload for which the peer has asked: the peer wakes once.
// They leave also where the peer has asked for another length, for both ranks are to see both lengths.
func TestNoticesGoAlong(t *testing.T) {
	for _, asked := range []int{100, 99} {
		meshes := open(t, 2, nil)
		var s Send
		var r, back Receive
		require.NoError(t, meshes[1].Post(&r, 0, 5, asked))
		require.NoError(t, meshes[1].Flush())
		counted := &writes{Stream: meshes[0].pairs[1].stream}
		meshes[0].pairs[1].stream = counted
		require.NoError(t, meshes[0].Post(&back, 1, 5, 7))
		require.NoError(t, meshes[0].Announce(&s, 1, 5, 100))
		ok, err := meshes[0].Write(&s, pattern(0, 100))
		require.Equal(t, 1, counted.n)
		if asked == 100 {
			require.True(t, ok)
			require.NoError(t, errors.Join(err, take(meshes[1], &r, make([]byte, 100), true)))
			continue
		}
		var e *Mismatch
		require.ErrorAs(t, err, &e)
		require.ErrorAs(t, take(meshes[1], &r, make([]byte, asked), true), &e)
		require.Equal(t, &Mismatch{Slot: 5, Ours: 99, Theirs: 100}, e)
	}
}
