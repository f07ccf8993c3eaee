package peer

import (
	"errors"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// Abort ends all waiting on the device. After a peaceful end of the group Close lets pending operations end first. Abort does
// not block, for the caller may be the goroutine that has to carry on.
func (b *backend) Abort(cause error) {
	switch {
	case !b.opened:
		if b.Order != nil {
			b.Failure.Set(cause)
		}
	case !b.Failure.Set(cause):
	case b.Failure.Peaceful():
		b.Go(b.hurry)
	default:
		b.Failure.Raise()
		b.Go(b.release)
	}
}

// hurry ends all waiting after a peaceful end, too, if a goroutine enqueues and goes on to. It may wait for the throttle,
// which no peer relieves any more, and Close is called when it is through.
func (b *backend) hurry() {
	if b.LockWithin(streamorder.Farewell) {
		b.Unlock()
		return
	}
	b.Failure.Raise()
	b.release()
}

// release sets the flags that streams wait for until nothing waits. The streams then go on with data that never came. So release first marks
// this rank as aborted, if something waits at all. Then its kernels send nothing any more, the last meeting of a copy-engine ring among them.
// Its peers trust nothing that its streams send. Each flag is written as a word, for a stream that waits for a word is then behind the marks
// as well.
func (b *backend) release() {
	_ = streamorder.OnDevice(b.device, b.releaseOn) // where it fails the device is lost, and with it whatever waited there
}

// releaseOn sets the flags again and again. A stream may come to a wait only when it is through with work of the caller's. It
// also resets the flags that it has waited for. After a while releaseOn sets them only now and then.
func (b *backend) releaseOn(t cuda.Thread) error {
	words, n := b.heap.Address(b.layout.Words), b.layout.NumWords()+b.layout.NumTags()
	marked := false
	for limit := time.Now().Add(streamorder.Patience); !b.Quiet(t); {
		if time.Now().After(limit) {
			select {
			case <-b.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		c := streamorder.On(t)
		if !marked {
			b.markAborted(&c)
			marked = true
		}
		for i := range n {
			c.Write32(b.Setup.Stream, words+cuda.Pointer(4*i), mostCode)
		}
		c.Synchronize(b.Setup.Stream)
		if c.Err != nil {
			return c.Err
		}
		time.Sleep(releasePause)
	}
	return nil
}

// markAborted marks this rank as aborted, in its own heap and in the peers'. It does so once for each release. For a peer that is released at the
// same time sets its trusted words again and again, so that its own streams go on.
func (b *backend) markAborted(c *streamorder.Commands) {
	b.parting.Lock()
	defer b.parting.Unlock()
	c.Write32(b.Setup.Stream, b.heap.Address(b.layout.State+ptx.AbortedAt), ptx.Aborted)
	for q := range b.size {
		if q != b.rank && !b.parted {
			c.Write32(b.Setup.Stream, b.heap.PeerAddress(q, b.layout.TrustedAt(b.rank)), 0)
		}
	}
}

// releasePause is how long release leaves device and processor to others before it looks again.
const releasePause = 100 * time.Microsecond

// Close ends pending operations and gives everything back. Operations get some time to end; after a failure none waits for a
// peer.
func (b *backend) Close() error {
	if b.Order == nil {
		if b.device == nil {
			return nil
		}
		return b.device.Close()
	}
	if !b.Shut() {
		return nil
	}
	// Memory of the host and of other ranks of the process is given back even if the device is lost.
	err := streamorder.OnDevice(b.device, b.settle)
	b.Reader.Close()
	return streamorder.Brief(errors.Join(err, b.heap.Leave(b.giveBack)))
}

// draining is how much longer a rank of a failed group waits for its peers to leave. A peer may first let operations go on that come before
// the one that failed: for a second, which is pg's host.Drain.
const draining = time.Second

// settle ends pending operations, waits until this rank's device is idle, and leaves the peers.
func (b *backend) settle(t cuda.Thread) error {
	if b.opened && !b.QuietWithin(t, streamorder.Farewell) {
		b.Failure.Raise()
		b.release()
	}
	b.part()
	err := errors.Join(b.Drain(t), b.heap.Unmap(t, b.options.farewell, draining, b.Failure.Peaceful))
	if !b.Failure.Peaceful() {
		b.Tenant.Await(t)
	}
	return err
}

// part keeps a release that an Abort begins from now on from writing into the peers' heaps.
func (b *backend) part() {
	b.parting.Lock()
	defer b.parting.Unlock()
	b.parted = true
}

// giveBack frees the rank's memory on its device, and the device.
func (b *backend) giveBack() error {
	return b.GiveBack(func(t cuda.Thread) error { return errors.Join(b.heap.Free(t), b.free(t)) }, b.group.Log())
}

// free gives back everything that the rank has on its device beside the heap.
func (b *backend) free(t cuda.Thread) error {
	errs := []error{b.Reader.Free(t), b.code.unload(t), b.engines.free(t)}
	if b.scratch.at != 0 {
		errs = append(errs, t.Free(b.scratch.at))
	}
	if b.watchdog.flags != nil {
		errs = append(errs, t.FreeHost(b.watchdog.flags))
	}
	b.scratch.at, b.watchdog.flags = 0, nil
	return errors.Join(append(errs, b.Failure.Free(t), b.Order.Free(t))...)
}
