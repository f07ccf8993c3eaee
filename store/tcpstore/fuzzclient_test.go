package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// served is a tape that hands out a server's replies. Nothing on it is ever late.
type served struct{ tape }

func (*served) SetDeadline(time.Time) error      { return nil }
func (*served) SetReadDeadline(time.Time) error  { return nil }
func (*served) SetWriteDeadline(time.Time) error { return nil }

func hears(replies []byte, piece int) *served {
	return &served{tape{heard: slices.Collect(slices.Chunk(replies, piece))}}
}

// reply is one of the replies that a result stands for, put together as a server would.
type reply = request

// clientCalls are the calls that read replies. Each returns the reply that its result must have come from. Waits are
// answered by one byte, over the first connection in the new dialect and over another one in the old.
var clientCalls = []struct {
	name  string
	waits bool // first for a key
	call  func(ctx, *Client) (reply, error)
}{
	{"compare_set", false, func(x ctx, c *Client) (reply, error) {
		v, err := c.CompareSet(x, "k", []byte("old"), []byte("new"))
		return reply{}.bytes(v), err
	}},
	{"add", false, func(x ctx, c *Client) (reply, error) {
		n, err := c.Add(x, "k", 1)
		return reply{}.int64(n), err
	}},
	{"num_keys", false, func(x ctx, c *Client) (reply, error) {
		n, err := c.NumKeys(x)
		return reply{}.int64(n), err
	}},
	{"check", false, func(x ctx, c *Client) (reply, error) {
		ready, err := c.Check(x, "a", "b")
		if ready {
			return reply{checkReady}, err
		}
		return reply{checkNotReady}, err
	}},
	{"delete_key", false, func(x ctx, c *Client) (reply, error) {
		_, err := c.Delete(x, "k")
		return nil, err // more than one reply says that there was a key
	}},
	{"queue_len", false, func(x ctx, c *Client) (reply, error) {
		n, err := c.QueueLen(x, "k")
		return reply{}.int64(n), err
	}},
	{"list_keys", false, func(x ctx, c *Client) (reply, error) {
		keys, err := c.ListKeys(x)
		return make(reply, 8*len(keys)), err // at least their lengths; they are sorted, and some left out
	}},
	{"queue_pop", false, func(x ctx, c *Client) (reply, error) {
		_, err := c.QueuePop(x, "k", false)
		return nil, err
	}},
	{"queue_pop blocking", false, func(x ctx, c *Client) (reply, error) {
		_, err := c.QueuePop(x, "k", true)
		return nil, err
	}},
	{"get", true, func(x ctx, c *Client) (reply, error) {
		v, err := c.Get(x, "k")
		return reply{}.bytes(v), err
	}},
	{"wait", true, func(x ctx, c *Client) (reply, error) { return nil, c.Wait(x, "a", "b") }},
	{"multi_get", true, func(x ctx, c *Client) (reply, error) {
		vs, err := c.MultiGet(x, []string{"a", "b"})
		q := reply{}
		for _, v := range vs {
			q = q.bytes(v)
		}
		return q, err
	}},
	{"cancel_wait", false, func(x ctx, c *Client) (reply, error) {
		err := c.first.cancelWait()
		if err == errStopped || err == nil { // the connection goes on
			return nil, nil
		}
		c.fail(err) // as a call does with an error of its connection
		return nil, err
	}},
	{"greeting", false, func(x ctx, c *Client) (reply, error) {
		if err := c.dialer.greet(x, c.first); err != nil {
			c.fail(err) // it is not used
			return nil, err
		}
		return nil, nil
	}},
	{"join", false, func(x ctx, c *Client) (reply, error) {
		bound := c.limit.Start(x)
		defer bound.Stop()
		err := c.join(bound, ClientOptions{WorldSize: 2, WaitForWorkers: true})
		if err != nil {
			err = errors.Join(err, c.Close()) // as Dial does
		}
		return nil, err
	}},
}

// FuzzClient has a server say anything to a client, in both dialects and in pieces of a length. It does so over the first
// connection, and over one that waits use. Nothing panics or hangs. A result is what the server has said, and holds no more. After other errors than
// that there is no such thing, the client is of no more use.
func FuzzClient(f *testing.F) {
	values := reply{}.bytes([]byte("first")).bytes(nil)
	for i := range clientCalls {
		for _, old := range []bool{false, true} {
			f.Add(uint8(i), old, append([]byte{waitStopped}, values...), []byte{waitStopped, waitStopped, waitStopped}, 64)
			f.Add(uint8(i), old, []byte(values), []byte{waitStopped, waitStopped}, 3)
			f.Add(uint8(i), old, []byte(reply{}.int64(1).string("/k")), []byte{waitCanceled}, 1)
			f.Add(uint8(i), old, bytes.Repeat([]byte{0xff}, 16), []byte{}, 7)
		}
	}
	f.Add(uint8(6), false, []byte(reply{}.int64(2).string("/a").string("init/")), []byte{}, 5)
	f.Add(uint8(0), true, []byte(reply{}.int64(maxReply)), []byte{}, 5)
	f.Fuzz(func(t *testing.T, which uint8, old bool, first, spare []byte, piece int) {
		if piece < 1 {
			return
		}
		call := clientCalls[int(which)%len(clientCalls)]
		d := Torch2
		if old {
			d = Torch113
		}
		synctest.Test(t, func(t *testing.T) { // whose clock passes the pauses between looks at a counter
			main, beside := hears(first, piece), hears(spare, piece)
			c := &Client{dialer: dialer{ping: true, dialect: d}, main: make(chan struct{}, 1), waiting: map[*conn]bool{},
				first: newConn(main, d, patience), spare: []*conn{newConn(beside, d, patience)}}
			said, err := call.call(context.Background(), c)
			require.LessOrEqual(t, len(main.said)+len(beside.said), 1<<10+64*(len(first)+len(spare)), "the client says ever more")
			switch {
			case err == nil:
				checkReply(t, call.name, call.waits && !old, said, first)
			case errors.Is(err, store.ErrNotSupported) || errors.Is(err, store.ErrQueueEmpty) || errors.Is(err, ErrNoConnection):
				require.NoError(t, c.over())
			default:
				require.Error(t, c.over(), "%s goes on after %v", call.name, err)
				require.True(t, main.closed)
			}
		})
	})
}

// checkReply holds what a result stands for to what was heard. In the new dialect a wait's answer comes before it.
func checkReply(t *testing.T, name string, waited bool, said, heard []byte) {
	if waited {
		require.NotEmpty(t, heard)
		require.EqualValues(t, waitStopped, heard[0])
		heard = heard[1:]
	}
	if name == "list_keys" {
		require.GreaterOrEqual(t, len(heard), 8+len(said))
		require.LessOrEqual(t, uint64(len(said)/8), binary.LittleEndian.Uint64(heard))
		return
	}
	require.True(t, bytes.HasPrefix(heard, said), "%s: %x of %x", name, said, heard)
}
