package storetest

import (
	"bytes"
	"math"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

func testSetGet(s suite) {
	s.set("k", "v")
	s.get("k", "v")
	s.set("k", "longer value")
	s.get("k", "longer value")
	s.set("empty", "")
	s.get("empty", "")
	s.check(true, "k", "empty")
	s.set("", "no name")
	s.get("", "no name")
}

func testBinary(s suite) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	key := "binary\x00\xff/-/ü\n"
	require.NoError(s.t, s.Set(s.ctx, key, every))
	s.get(key, string(every))
}

func testOwnership(s suite) {
	val := []byte("mine")
	require.NoError(s.t, s.Set(s.ctx, "k", val))
	val[0] = 'X'
	s.get("k", "mine")
	got, err := s.Get(s.ctx, "k")
	require.NoError(s.t, err)
	got[0] = 'Y'
	s.get("k", "mine")
}

func testAdd(s suite) {
	for _, c := range []struct{ delta, want int64 }{
		{5, 5}, {0, 5}, {-7, -2}, {math.MaxInt64, math.MaxInt64 - 2}, {2, math.MaxInt64},
		{math.MinInt64, -1}, {math.MinInt64 + 1, math.MinInt64}, {math.MaxInt64, -1},
	} {
		n, err := s.Add(s.ctx, "n", c.delta)
		require.NoError(s.t, err)
		require.Equal(s.t, c.want, n)
	}
	s.get("n", "-1")
	s.set("n", "41")
	n, err := s.Add(s.ctx, "n", 1)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 42, n)
	s.get("n", "42")
}

// testAddNotNumber and testAddOverflow end with the error: a TCP server drops the connection on it.
func testAddNotNumber(s suite) {
	s.set("k", "five")
	_, err := s.Add(s.ctx, "k", 1)
	require.Error(s.t, err)
}

func testAddOverflow(s suite) {
	_, err := s.Add(s.ctx, "k", math.MaxInt64)
	require.NoError(s.t, err)
	_, err = s.Add(s.ctx, "k", 1)
	require.Error(s.t, err)
}

func testCompareSet(s suite) {
	for _, c := range []struct{ expected, desired, want string }{
		{"wrong", "a", "wrong"}, // missing, expected not empty: nothing stored, expected comes back
		{"", "a", "a"},          // missing, expected empty: stored
		{"", "b", "a"},          // present and different: the current value comes back
		{"a", "b", "b"},         // equal: replaced
		{"b", "", ""},           // replaced by nothing
		{"x", "y", ""},          // an empty value is present
		{"", "z", "z"},
	} {
		got, err := s.CompareSet(s.ctx, "k", []byte(c.expected), []byte(c.desired))
		require.NoError(s.t, err)
		require.Equal(s.t, c.want, string(got), "%+v", c)
		if c.want == "wrong" {
			s.check(false, "k")
		}
	}
	s.get("k", "z")
}

func testDelete(s suite) {
	s.set("k", "v")
	there, err := s.Delete(s.ctx, "k")
	require.NoError(s.t, err)
	require.True(s.t, there)
	s.check(false, "k")
	there, err = s.Delete(s.ctx, "k")
	require.NoError(s.t, err)
	require.False(s.t, there)
	s.set("k", "again")
	s.get("k", "again")
}

func testAppend(s suite) {
	require.NoError(s.t, s.Append(s.ctx, "k", nil))
	s.get("k", "")
	for _, part := range []string{"a", "bc", ""} {
		require.NoError(s.t, s.Append(s.ctx, "k", []byte(part)))
	}
	s.get("k", "abc")
}

func testMulti(s suite) {
	keys := []string{"a", "b", "c", "a"}
	vals := [][]byte{[]byte("1"), {}, []byte("3"), []byte("1")}
	require.NoError(s.t, s.MultiSet(s.ctx, keys, vals))
	got, err := s.MultiGet(s.ctx, keys)
	require.NoError(s.t, err)
	require.Equal(s.t, vals, got)
	require.NoError(s.t, s.MultiSet(s.ctx, nil, nil))
	got, err = s.MultiGet(s.ctx, nil)
	require.NoError(s.t, err)
	require.Empty(s.t, got)
}

func testMultiSetPanics(s suite) {
	require.Panics(s.t, func() { _ = s.MultiSet(s.ctx, []string{"a", "b"}, [][]byte{nil}) })
	require.Panics(s.t, func() { s.SetTimeout(-1) })
}

func testKeys(s suite) {
	before, err := s.NumKeys(s.ctx)
	require.NoError(s.t, err)
	keys, err := s.ListKeys(s.ctx)
	require.NoError(s.t, err)
	require.Empty(s.t, keys)
	for _, k := range []string{"b", "a/x", "c", "a/x"} {
		s.set(k, "v")
	}
	_, err = s.Delete(s.ctx, "c")
	require.NoError(s.t, err)
	keys, err = s.ListKeys(s.ctx)
	require.NoError(s.t, err)
	require.Equal(s.t, []string{"a/x", "b"}, keys)
	after, err := s.NumKeys(s.ctx)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 2, after-before)
}

func testLarge(s suite) {
	for _, n := range []int{1 << 12, 1<<16 + 1, store.MaxValue} {
		val := bytes.Repeat([]byte{7, 8, 9}, n/3+1)[:n]
		require.NoError(s.t, s.Set(s.ctx, "k", val))
		got, err := s.Get(s.ctx, "k")
		require.NoError(s.t, err)
		require.True(s.t, bytes.Equal(val, got), "%d bytes came back as %d", n, len(got))
	}
}
