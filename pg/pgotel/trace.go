package pgotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// The attributes of a span.
const (
	Operation = attribute.Key("colligo.operation") // c10d's name, such as "ALLREDUCE"
	Seq       = attribute.Key("colligo.seq")       // among the group's collectives, or among its sends and receives, from 1
	Bytes     = attribute.Key("colligo.bytes")     // of the whole tensor
	DType     = attribute.Key("colligo.dtype")     // PyTorch's name, such as "float32"; not of barriers and blocks
	Peer      = attribute.Key("colligo.peer")      // of sends and receives alone: the rank in the group
	Group     = attribute.Key("colligo.group")     // name of the group
	Rank      = attribute.Key("colligo.rank")      // this rank in the group
	Size      = attribute.Key("colligo.size")      // ranks of the group
	Error     = attribute.Key("colligo.error")     // of operations that failed: one of the causes that Cause lists
)

// Trace has a tracer make a span of each operation that the group ends from then on, blocking ones too. The span that is in ctx, if
// any, is the parent of all. A span has the operation's name, the attributes above and those in more, and the times when the operation began and
// ended. Where it is not known when it began, as on GPUs without Group.SetTiming, the span begins with the call. A failed operation's
// span has status Error with the error's text, which names ranks and cause.
//
// Spans are made in one goroutine of the group's, by Group.OnCompletion. Group.Close waits until all are made; after it the program
// shuts its exporter down. On a rank outside the group nothing is traced. No twin in c10d.
func Trace(ctx context.Context, g *pg.Group, tracer trace.Tracer, more ...attribute.KeyValue) {
	if g.Rank() == colligo.NoRank {
		return
	}
	common := append([]attribute.KeyValue{Group.String(g.Name()), Rank.Int(g.Rank()), Size.Int(g.Size())}, more...)
	ctx = context.WithoutCancel(ctx) // spans are made when the program has given up, too
	g.OnCompletion(func(w pg.WorkInfo) {
		attributes := append(attributesOf(w), common...)
		_, span := tracer.Start(ctx, w.Op.String(), trace.WithTimestamp(w.Started), trace.WithAttributes(attributes...))
		if w.Err != nil {
			span.SetAttributes(Error.String(Cause(w.Err)))
			span.SetStatus(codes.Error, w.Err.Error())
		}
		span.End(trace.WithTimestamp(w.Finished))
	})
}

// attributesOf are those of one operation.
func attributesOf(w pg.WorkInfo) []attribute.KeyValue {
	all := []attribute.KeyValue{Operation.String(w.Op.String()), Seq.Int64(int64(w.Seq)), Bytes.Int(w.Bytes)}
	if w.DType.Valid() {
		all = append(all, DType.String(w.DType.String()))
	}
	if w.Peer != colligo.NoRank {
		all = append(all, Peer.Int(w.Peer))
	}
	return all
}

// Cause names the cause of an error by one word, for attributes and labels: "timeout", "mismatch", "peer_lost", "corrupt", "closed",
// "cancelled", or "other".
func Cause(err error) string {
	for _, c := range []struct {
		err  error
		name string
	}{
		{colligo.ErrTimeout, "timeout"}, {colligo.ErrMismatch, "mismatch"}, {colligo.ErrPeerLost, "peer_lost"},
		{colligo.ErrCorrupt, "corrupt"}, {colligo.ErrClosed, "closed"}, {context.Canceled, "cancelled"},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other"
}
