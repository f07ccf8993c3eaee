package pgotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgotel"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// recorded returns a tracer provider that keeps its spans in memory.
func recorded() (*tracetest.InMemoryExporter, *sdk.TracerProvider) {
	spans := tracetest.NewInMemoryExporter()
	return spans, sdk.NewTracerProvider(sdk.WithSyncer(spans))
}

// of returns a span's attributes.
func of(s tracetest.SpanStub) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.Emit()
	}
	return all
}

// TestTrace makes spans of collectives and messages, with the times of the operations. Time is virtual, so it is exact to the sleep.
func TestTrace(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		spans, provider := recorded()
		ctx, root := provider.Tracer("test").Start(t.Context(), "step")
		pgotel.Trace(ctx, g, provider.Tracer("test"), attribute.String("job", "a"))
		x, begun := colligo.Of(make([]float32, 25)), time.Now()
		if g.Rank() == 0 {
			time.Sleep(3 * time.Second)
		}
		require.NoError(t, g.AllReduce(t.Context(), x, colligo.Sum))
		require.NoError(t, g.Barrier(t.Context()))
		if g.Rank() == 0 {
			require.NoError(t, g.Send(t.Context(), colligo.Of([]int16{1}), 1, 0))
		} else {
			_, err := g.RecvAny(t.Context(), colligo.Of([]int16{1}), 0)
			require.NoError(t, err)
		}
		require.NoError(t, g.Close(), "Close waits until all spans are made")
		all := spans.GetSpans()
		require.Len(t, all, 3)
		for _, s := range all {
			require.Equal(t, root.SpanContext().SpanID(), s.Parent.SpanID())
			require.Equal(t, root.SpanContext().TraceID(), s.SpanContext.TraceID())
			require.Equal(t, codes.Unset, s.Status.Code)
			require.Equal(t, "a", of(s)["job"])
		}
		rank := fmt.Sprint(g.Rank())
		require.Equal(t, "ALLREDUCE", all[0].Name)
		require.Equal(t, map[attribute.Key]string{pgotel.Operation: "ALLREDUCE", pgotel.Seq: "1", pgotel.Bytes: "100", pgotel.DType: "float32",
			pgotel.Group: "0", pgotel.Rank: rank, pgotel.Size: "2", "job": "a"}, of(all[0]))
		if g.Rank() == 1 {
			require.WithinDuration(t, begun, all[0].StartTime, 100*time.Millisecond)
			took := all[0].EndTime.Sub(all[0].StartTime)
			require.True(t, took >= 3*time.Second && took < 3500*time.Millisecond, took)
		} else {
			require.WithinDuration(t, begun.Add(3*time.Second), all[0].StartTime, 100*time.Millisecond)
		}
		require.Equal(t, "BARRIER", all[1].Name)
		require.NotContains(t, of(all[1]), pgotel.DType)
		require.NotContains(t, of(all[1]), pgotel.Peer)
		require.Equal(t, []string{"SEND", "RECVANYSOURCE"}[g.Rank()], all[2].Name)
		last := of(all[2])
		require.Equal(t, []string{"int16", "2", "1", fmt.Sprint(1 - g.Rank())},
			[]string{last[pgotel.DType], last[pgotel.Bytes], last[pgotel.Seq], last[pgotel.Peer]})
	})
}

// TestTraceOfFailed gives the span of an operation that failed status, text and cause, after the context has ended too.
func TestTraceOfFailed(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		spans, provider := recorded()
		ctx, cancel := context.WithCancel(t.Context())
		pgotel.Trace(ctx, g, provider.Tracer("test"))
		cancel()
		err := g.AllReduce(t.Context(), colligo.Of(make([]float32, 10+g.Rank())), colligo.Sum)
		require.ErrorIs(t, err, colligo.ErrMismatch)
		require.NoError(t, g.WaitPending(t.Context()))
		all := spans.GetSpans()
		require.Len(t, all, 1)
		require.Equal(t, codes.Error, all[0].Status.Code)
		require.Equal(t, err.Error(), all[0].Status.Description)
		require.Equal(t, "mismatch", of(all[0])[pgotel.Error])
	})
}

// TestTraceOutside traces nothing for a rank that is no member.
func TestTraceOutside(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		spans, provider := recorded()
		sub, err := g.NewGroup(t.Context(), []int{0})
		require.NoError(t, err)
		pgotel.Trace(t.Context(), sub, provider.Tracer("test"))
		err = sub.Broadcast(t.Context(), colligo.Of([]int32{1}), 0)
		require.Equal(t, g.Rank() == 1, errors.Is(err, pg.ErrNotMember))
		require.Equal(t, g.Rank() == 1, errors.Is(sub.WaitPending(t.Context()), pg.ErrNotMember))
		require.Len(t, spans.GetSpans(), 1-g.Rank())
	})
}

func TestCause(t *testing.T) {
	for name, err := range map[string]error{"timeout": colligo.ErrTimeout, "peer_lost": colligo.ErrPeerLost, "corrupt": colligo.ErrCorrupt,
		"closed": colligo.ErrClosed, "cancelled": context.Canceled, "other": errors.New("a reason")} {
		require.Equal(t, name, pgotel.Cause(fmt.Errorf("wrapped: %w", err)))
	}
}

// A program hands the group a tracer once, and every operation becomes a span.
func ExampleTrace() {
	spans, provider := recorded()
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, 1, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pgotel.Trace(ctx, groups[0], provider.Tracer("trainer"))
	err = groups[0].AllReduce(ctx, colligo.Of(make([]float32, 256)), colligo.Sum)
	fmt.Println(errors.Join(err, groups[0].Close(), provider.ForceFlush(ctx)))
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, of(s)[pgotel.Bytes], "bytes of", of(s)[pgotel.DType])
	}
	// Output:
	// <nil>
	// ALLREDUCE 1024 bytes of float32
}
