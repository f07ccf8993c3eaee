package pg

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// TestFirstNaN puts each bit pattern of the small types, and chosen ones of the large, behind an element that is none. It
// holds the answer against the conversion to float32 or the definition.
func TestFirstNaN(t *testing.T) {
	holds := func(d colligo.DType, pattern []byte, nan bool) {
		t.Helper()
		b := append(make([]byte, d.Size()), pattern...)
		want := -1
		if nan {
			want = 1
		}
		require.Equal(t, want, op.FirstNaN(b, d), "%v % x", d, pattern)
	}
	for i := range 1 << 16 {
		two := []byte{byte(i), byte(i >> 8)}
		holds(colligo.Float16, two, math.IsNaN(float64(colligo.Float16ToFloat32(uint16(i)))))
		holds(colligo.BFloat16, two, math.IsNaN(float64(colligo.BFloat16ToFloat32(uint16(i)))))
		if i < 256 {
			holds(colligo.Float8E4M3FN, two[:1], math.IsNaN(float64(colligo.Float8E4M3FNToFloat32(byte(i)))))
			holds(colligo.Float8E5M2, two[:1], math.IsNaN(float64(colligo.Float8E5M2ToFloat32(byte(i)))))
		}
	}
	inf := math.Inf(1)
	nan := math.NaN()
	for _, c := range []struct {
		x    colligo.Tensor
		want int
	}{
		{colligo.Of([]float32{0, float32(inf), float32(-inf), math.MaxFloat32, float32(nan)}), 4},
		{colligo.Of([]float32{1, math.Float32frombits(0xff800001)}), 1},
		{colligo.Of([]float64{0, inf, -inf, math.MaxFloat64, math.SmallestNonzeroFloat64}), -1},
		{colligo.Of([]float64{nan, 1, nan}), 0},
		{colligo.Of([]complex64{0, 1, complex(0, float32(nan)), 3}), 2},
		{colligo.Of([]complex128{0, complex(nan, 0)}), 1},
		{colligo.Of([]complex128{0, complex(inf, -inf)}), -1},
		{colligo.Of([]float32{}), -1},
	} {
		require.Equal(t, c.want, op.FirstNaN(c.x.CPUBytes(), c.x.DType()), "%v", c.x)
	}
}

// TestNaNCheck fails the group on all ranks, and names rank, tensor and element.
func TestNaNCheck(t *testing.T) {
	nan := float32(math.NaN())
	bad := func() colligo.Tensor { return colligo.Of([]float32{0, 1, 2, nan, 4, nan}) }
	good := func() colligo.Tensor { return colligo.Of(make([]float32, 6)) }
	pick := func(g *Group) colligo.Tensor {
		if g.rank == 1 {
			return bad()
		}
		return good()
	}
	for name, c := range map[string]struct {
		call func(g *Group) error
		says string
	}{
		"all_reduce": {func(g *Group) error { return g.AllReduce(t.Context(), pick(g), colligo.Sum) }, "NaN in float32 tensor 0 at element 3"},
		"async": {func(g *Group) error { return g.AllReduceAsync(t.Context(), pick(g), colligo.Sum).Wait(t.Context()) },
			"NaN in float32 tensor 0 at element 3"},
		"strided": {func(g *Group) error {
			return g.AllReduce(t.Context(), pick(g).Strided(1, []int{2}, []int{2}), colligo.Sum)
		}, "NaN in float32 tensor 0 at element 1"},
		"list": {func(g *Group) error {
			x := pick(g)
			return g.ReduceScatter(t.Context(), good().Slice(0, 3), []colligo.Tensor{x.Slice(0, 3), x.Slice(3, 6)}, colligo.Sum)
		}, "NaN in float32 tensor 1 at element 0"},
		"list apart": {func(g *Group) error {
			x := pick(g)
			return g.ReduceScatter(t.Context(), good().Slice(0, 3), []colligo.Tensor{x.Slice(3, 6), x.Slice(0, 3)}, colligo.Sum)
		}, "NaN in float32 tensor 0 at element 0"},
		"broadcast": {func(g *Group) error { return g.Broadcast(t.Context(), pick(g), 1) }, "NaN in float32 tensor 0 at element 3"},
		"broadcast_coalesced": {func(g *Group) error {
			x := good()
			if g.rank == 0 {
				x = bad() // to be overwritten
			}
			return g.BroadcastCoalesced(t.Context(), []colligo.Tensor{x, pick(g).Strided(1, []int{2}, []int{2})}, 0, 1)
		}, "NaN in float32 tensor 1 at element 1"},
		"send": {func(g *Group) error {
			if g.rank == 1 {
				return g.Send(t.Context(), bad(), 0, 0)
			}
			return g.Recv(t.Context(), good(), 1, 0)
		}, "NaN in float32 tensor 0 at element 3"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := quiet
			conf.Debug.NaNCheck = On
			groups := inProcess(t, 2, conf)
			errs := make(chan error)
			go func() { errs <- c.call(groups[0]) }()
			err := c.call(groups[1])
			require.ErrorContains(t, err, c.says+" [rank 1 of group 0]")
			// The peer's error has that of rank 1, and names the operation once, whether the peer had called it or not.
			text, said := err.Error(), (<-errs).Error()
			named, reason, _ := strings.Cut(text, c.says)
			reason = c.says + reason
			require.True(t, strings.Contains(said, "rank 1 reported: "+text) || strings.Contains(said, "rank 1 reported: "+reason), said)
			require.Equal(t, 1, strings.Count(said, named), said)
		})
	}
}

// TestNaNIsOnlyRead leaves alone what a rank does not send, and everything without the check.
func TestNaNIsOnlyRead(t *testing.T) {
	x := colligo.Of([]float32{float32(math.NaN())})
	for _, check := range []Toggle{On, Off} {
		conf := quiet
		conf.Debug.NaNCheck = check
		groups := inProcess(t, 2, conf)
		errs := make(chan error)
		go func() { errs <- groups[0].Broadcast(t.Context(), colligo.Of(make([]float32, 1)), 0) }()
		got := colligo.Of(make([]float32, 1))
		kernels.Copy(got, x)
		require.NoError(t, groups[1].Broadcast(t.Context(), got, 0))
		require.NoError(t, <-errs)
	}
}
