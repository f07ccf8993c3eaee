package object_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/pickle"
)

// TestPickleTargets reads pickled values into Go types that hold them exactly, and refuses types that do not.
func TestPickleTargets(t *testing.T) {
	dict := &pickle.Dict{}
	dict.Set("a", int64(1))
	for _, c := range []struct {
		v    any
		into any // pointer; the result is behind it
		want any // nil: refused
	}{
		{int64(7), new(any), int64(7)}, {nil, new(any), nil}, {int64(7), new(int8), int8(7)}, {int64(200), new(int8), nil},
		{int64(-1), new(uint16), nil}, {int64(65535), new(uint16), uint16(65535)},
		{new(big.Int).SetUint64(math.MaxUint64), new(uint64), uint64(math.MaxUint64)}, {int64(3), new(float64), 3.0},
		{int64(1<<53 + 1), new(float64), nil}, {0.1, new(float32), nil}, {0.5, new(float32), float32(0.5)}, {1.0, new(int), nil},
		{"x", new(string), "x"}, {"x", new(int), nil}, {true, new(bool), true}, {true, new(int), nil},
		{[]byte{1}, new([]byte), []byte{1}}, {[]any{int64(1), int64(2)}, new([]int), []int{1, 2}},
		{pickle.Tuple{"a", "b"}, new([]string), []string{"a", "b"}}, {[]any{int64(1), "x"}, new([]int), nil},
		{dict, new(map[string]int), map[string]int{"a": 1}}, {dict, new(map[int]int), nil}, {dict, new(map[string]string), nil},
		{int64(1), new(chan int), nil}, {int64(1), new(map[string]int), nil}, {"x", new([]int), nil},
	} {
		b, err := object.Pickle.Marshal(c.v)
		require.NoError(t, err)
		err = object.Pickle.Unmarshal(b, c.into)
		if c.want == nil && c.v != nil {
			require.Error(t, err, "%v into %T", c.v, c.into)
			continue
		}
		require.NoError(t, err, "%v into %T", c.v, c.into)
		require.Equal(t, c.want, deref(c.into))
	}
	require.Error(t, object.Pickle.Unmarshal([]byte("not a pickle"), new(any)))
}

func deref(p any) any {
	switch p := p.(type) {
	case *any:
		return *p
	case *int8:
		return *p
	case *uint16:
		return *p
	case *uint64:
		return *p
	case *float64:
		return *p
	case *float32:
		return *p
	case *string:
		return *p
	case *bool:
		return *p
	case *[]byte:
		return *p
	case *[]int:
		return *p
	case *[]string:
		return *p
	case *map[string]int:
		return *p
	}
	return p
}
