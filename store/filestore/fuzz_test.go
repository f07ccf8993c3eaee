package filestore

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// naive reads a log all at once, and is the dumb twin of refresh.
func naive(data []byte) (values map[string][]byte, whole bool) {
	values = map[string][]byte{}
	field := func(limit uint32) ([]byte, bool) {
		if len(data) < 4 {
			return nil, false
		}
		n := binary.LittleEndian.Uint32(data)
		if n > limit || int(n) > len(data)-4 {
			return nil, false
		}
		b := data[4 : 4+n]
		data = data[4+n:]
		return b, true
	}
	for len(data) > 0 {
		key, ok := field(uint32(maxKey))
		if !ok {
			return values, false
		}
		val, ok := field(store.MaxValue)
		switch {
		case !ok:
			return values, false
		case len(key) > 0 && key[0] == '-':
			delete(values, string(key[1:]))
		default:
			values[string(key)] = val
		}
	}
	return values, true
}

// FuzzFile reads a log in two parts, as a store does that others write to, and compares with the naive reader.
func FuzzFile(f *testing.F) {
	f.Add([]byte{}, 0)
	whole := unhex(f, refOne+setK+deleteK+setK)
	for cut := range whole {
		f.Add(whole, cut)
	}
	for _, tail := range []string{"ffffffff", "02000000 2f6b ffffffff", "00000000 00000000", "01000000 2d 00000000"} {
		f.Add(append(whole[:len(whole):len(whole)], unhex(f, tail)...), len(whole))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = min(max(cut, 0), len(data))
		path := filepath.Join(t.TempDir(), "store")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		want, good := naive(data)
		s := &Store{path: path, values: map[string][]byte{}}
		first := s.refresh(file, int64(cut))
		second := s.refresh(file, int64(len(data)))
		if cut == len(data) {
			require.Equal(t, first == nil, second == nil)
		}
		require.Equal(t, good, second == nil, "%v", second)
		require.Len(t, s.values, len(want))
		for k, v := range want {
			require.Equal(t, string(v), string(s.values[k]))
		}
	})
}

// FuzzOpen opens whatever the file holds: an error or a store that works.
func FuzzOpen(f *testing.F) {
	f.Add(unhex(f, refOne+setK))
	f.Add(unhex(f, "09000000 726566636f756e742f 01000000 78"))
	f.Add(unhex(f, "09000000 726566636f756e742f 13000000 39323233333732303336383534373735383037"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "store")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		s, err := Open(t.Context(), path, Options{Timeout: time.Minute})
		if err != nil {
			require.ErrorContains(t, err, path)
			return
		}
		require.NoError(t, s.Set(t.Context(), "k", data[:min(len(data), 9)]))
		got, err := s.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, string(data[:min(len(data), 9)]), string(got))
	})
}
