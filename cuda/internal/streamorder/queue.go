package streamorder

import (
	"context"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/plan"
)

// Queue is one order of operations: the collectives of a group follow one another, and so do its sends, and its receives.
type Queue int

// The queues of a group.
const (
	Collectives Queue = iota
	Sends
	Receives
	NumQueues
)

// QueueOf returns the queue of an operation.
func QueueOf(c plan.Coll) Queue {
	switch c {
	case plan.Send:
		return Sends
	case plan.Recv:
		return Receives
	}
	return Collectives
}

type streamKey struct{}

// OnStream returns a context that names the stream on which the caller works.
func OnStream(ctx context.Context, s cuda.Stream) context.Context {
	return context.WithValue(ctx, streamKey{}, s)
}

// Of returns the stream of a context. Without one it is the legacy default stream.
func Of(ctx context.Context) cuda.Stream {
	s, _ := ctx.Value(streamKey{}).(cuda.Stream)
	return s
}
