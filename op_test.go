package colligo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// legality is the answer of OpKind.Check. It has the kind and type to compute with where they differ from the question, =
// where they do not, - for an error.
const legality = `
              sum     avg     prod  min   max   band  bor   bxor  premul_sum
uint8         =       =       =     =     =     =     =     =     -
int8          =       =       =     =     =     =     =     =     -
int16         =       =       =     =     =     =     =     =     -
int32         =       =       =     =     =     =     =     =     -
int64         =       =       =     =     =     =     =     =     -
uint32        =       =       =     =     =     =     =     =     -
uint64        =       =       =     =     =     =     =     =     -
float16       =       =       =     =     =     -     -     -     =
bfloat16      =       =       =     =     =     -     -     -     =
float32       =       =       =     =     =     -     -     -     =
float64       =       =       =     =     =     -     -     -     =
float8_e4m3fn =       =       =     =     =     -     -     -     =
float8_e5m2   =       =       =     =     =     -     -     -     =
bool          max:uint8 -     prod:uint8 min:uint8 max:uint8 band:uint8 bor:uint8 bxor:uint8 -
complex64     sum:float32 avg:float32 - - -     -     -     -     premul_sum:float32
complex128    sum:float64 avg:float64 - - -     -     -     -     premul_sum:float64
`

func TestCheckIsTheTable(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(legality), "\n")
	kinds := strings.Fields(lines[0])
	require.Len(t, lines[1:], len(colligo.DTypes()))
	require.Len(t, kinds, int(colligo.KindPremulSum)+1)
	for i, line := range lines[1:] {
		row, d := strings.Fields(line), colligo.DTypes()[i]
		require.Equal(t, row[0], d.String())
		for j, want := range row[1:] {
			k := colligo.OpKind(j)
			require.Equal(t, kinds[j], k.String())
			require.Equal(t, want, verdict(t, k, d), "%v of %v", k, d)
		}
	}
}

func verdict(t *testing.T, k colligo.OpKind, d colligo.DType) string {
	kind, as, err := k.Check(d)
	switch {
	case err != nil:
		require.ErrorIs(t, err, colligo.ErrOp)
		require.ErrorContains(t, err, k.String()+" of "+d.String())
		return "-"
	case kind == k && as == d:
		return "="
	}
	return fmt.Sprintf("%v:%v", kind, as)
}

func TestCheckOfUnknown(t *testing.T) {
	_, _, err := (colligo.KindPremulSum + 1).Check(colligo.Int8)
	require.EqualError(t, err, "colligo: op(9) of int8: reduce operation not defined on this element type")
	_, _, err = colligo.KindSum.Check(0)
	require.EqualError(t, err, "colligo: sum of dtype(0): reduce operation not defined on this element type")
}

// c10d's numbers go over the wire and into dumps.
func TestKindsHaveC10dNumbers(t *testing.T) {
	for i, op := range []colligo.ReduceOp{colligo.Sum, colligo.Avg, colligo.Prod, colligo.Min, colligo.Max,
		colligo.BAnd, colligo.BOr, colligo.BXor, colligo.PremulSum(2)} {
		require.Equal(t, colligo.OpKind(i), op.Kind())
		parsed, err := colligo.ParseReduceOp(op.String())
		require.NoError(t, err)
		require.Equal(t, op.Kind(), parsed.Kind())
	}
	require.Equal(t, colligo.Sum, colligo.ReduceOp{})
	_, err := colligo.ParseReduceOp("mean")
	require.EqualError(t, err, `colligo: unknown reduce operation "mean"`)
}

func TestFactor(t *testing.T) {
	f, by := colligo.PremulSum(0.5).Factor()
	require.Equal(t, 0.5, f)
	require.Nil(t, by)
	_, by = colligo.PremulSumBy(colligo.Of([]float32{3})).Factor()
	require.Equal(t, "float32[1] cpu", by.String())
	f, by = colligo.Sum.Factor()
	require.Zero(t, f)
	require.Nil(t, by)
	parsed, err := colligo.ParseReduceOp("premul_sum")
	require.NoError(t, err)
	require.Equal(t, colligo.PremulSum(1), parsed)
	parsed, err = colligo.ParseReduceOp("sum")
	require.NoError(t, err)
	require.Equal(t, colligo.Sum, parsed)
}
