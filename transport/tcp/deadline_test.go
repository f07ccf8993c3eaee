package tcp

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// lifted is a connection under which a context ends just before its deadline is lifted for the first time.
type lifted struct {
	net.Conn
	end  func()
	once sync.Once
	cut  chan struct{} // closed when the end has been heard
}

func (l *lifted) SetDeadline(t time.Time) error {
	if t.IsZero() {
		l.once.Do(func() {
			l.end()
			<-l.cut
		})
	}
	err := l.Conn.SetDeadline(t)
	if t.Equal(time.Unix(1, 0)) {
		close(l.cut)
	}
	return err
}

// TestEndBetweenLimits ends a context after the handshake with a peer and before what follows has its time: that time
// does not begin.
func TestEndBetweenLimits(t *testing.T) {
	for _, dialed := range []bool{false, true} {
		transporttest.NoLeaks(t)
		configs := group(2)
		near, far := net.Pipe()
		defer far.Close()
		ctx, cancel := context.WithCancel(context.Background())
		mine := configs[0]
		peer := func() { transport.Greet(t.Context(), far, configs[1], 0, transport.PurposeControl) }
		if dialed {
			mine = configs[1]
			peer = func() { transport.Admit(t.Context(), far, configs[0]) }
		}
		go peer() // and then it says nothing
		f := newForming(ctx, &mesh{c: *mine})
		introduce := f.introduceAccepted
		if dialed {
			introduce = func(conn net.Conn) (*guest, error) {
				return f.introduceDialed(conn, "pipe", 0, transport.PurposeControl)
			}
		}
		start := time.Now()
		conn, err := f.limited(&lifted{Conn: near, end: cancel, cut: make(chan struct{})}, introduce)
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, time.Since(start), transport.HandshakeTime/2)
		conn.Close()
	}
}
