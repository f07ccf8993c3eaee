package filestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return b
}

// The records that PyTorch's format gives for a first rank that sets k to v and deletes it.
const (
	refOne  = "09000000 726566636f756e742f 01000000 31"
	setK    = "02000000 2f6b 01000000 76"
	deleteK = "03000000 2d2f6b 00000000"
)

// TestBytes holds each call to the bytes that it appends.
func TestBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	ctx := t.Context()
	s := open(t, path, 0)
	var want []byte
	check := func(more string) {
		t.Helper()
		want = append(want, unhex(t, more)...)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
	}
	check(refOne)
	require.NoError(t, s.Set(ctx, "k", []byte("v")))
	check(setK)
	_, err := s.Delete(ctx, "k")
	require.NoError(t, err)
	check(deleteK)
	_, err = s.Add(ctx, "n", -12)
	require.NoError(t, err)
	check("02000000 2f6e 03000000 2d3132")
	_, err = s.CompareSet(ctx, "k", []byte("wrong"), []byte("w"))
	require.NoError(t, err)
	check("")
	_, err = s.CompareSet(ctx, "k", nil, []byte("w"))
	require.NoError(t, err)
	check("02000000 2f6b 01000000 77")
	require.NoError(t, s.Append(ctx, "k", []byte("x")))
	check("02000000 2f6b 02000000 7778")
	require.NoError(t, s.MultiSet(ctx, []string{"a", "b"}, [][]byte{nil, {0}}))
	check("02000000 2f61 00000000 02000000 2f62 01000000 00")
	_, err = s.Get(ctx, "a")
	require.NoError(t, err)
	check("")
	require.NoError(t, s.Close())
	check("08000000 636c65616e75702f 01000000 31 09000000 726566636f756e742f 01000000 30")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o133, "no more than 0644")
}

// TestReads reads what PyTorch ranks would have written, and what they add later.
func TestReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.WriteFile(path, unhex(t, refOne+setK+deleteK+"02000000 2f6e 01000000 35"), 0o644))
	ctx := t.Context()
	s := open(t, path, 3)
	require.EqualValues(t, 2, s.Joined())
	ok, err := s.Check(ctx, "k")
	require.NoError(t, err)
	require.False(t, ok)
	n, err := s.Add(ctx, "n", 1)
	require.NoError(t, err)
	require.EqualValues(t, 6, n)
	keys, err := s.NumKeys(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, keys, "n and refcount/")
	appendTo(t, path, unhex(t, setK))
	got, err := s.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(got))
}

func appendTo(t testing.TB, path string, b []byte) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, errors.Join(err, f.Close()))
}

// TestCorrupt: a record that makes no sense is an error with path and offset, and takes no memory.
func TestCorrupt(t *testing.T) {
	for name, c := range map[string]struct{ tail, want string }{
		"cut in the key's length":   {"0200", "2 bytes left where a key's length is due"},
		"cut in the key":            {"02000000 2f", "key of 2 bytes, 1 left"},
		"cut before the value":      {"02000000 2f6b", "0 bytes left where a value's length is due"},
		"cut in the value":          {"02000000 2f6b 05000000 61", "value of 5 bytes, 1 left"},
		"absurd key":                {"ffffffff", "key of 4294967295 bytes exceeds 8194"},
		"absurd value":              {"02000000 2f6b ffffffff", "value of 4294967295 bytes exceeds 8388608"},
		"long value that is absent": {"02000000 2f6b 00008000", "value of 8388608 bytes, 0 left"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			s := open(t, path, 0)
			require.NoError(t, s.Set(t.Context(), "k", []byte("v")))
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			appendTo(t, path, unhex(t, c.tail))
			_, err = s.Get(t.Context(), "k")
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, fmt.Sprintf("record at offset %d", len(whole)))
			require.ErrorContains(t, err, c.want)
			require.Error(t, s.Set(t.Context(), "k", nil), "nothing is appended to a broken file")
			_, err = Open(t.Context(), path, Options{})
			require.ErrorContains(t, err, c.want)
			require.NoError(t, os.Truncate(path, int64(len(whole))))
			_, err = s.Get(t.Context(), "k")
			require.NoError(t, err, "repaired")
		})
	}
}

func TestCounterNotNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.WriteFile(path, unhex(t, "09000000 726566636f756e742f 01000000 78"), 0o644))
	_, err := Open(t.Context(), path, Options{})
	require.ErrorContains(t, err, `refcount/ is "x", not a number`)
}

// TestRemoved: the last of Size ranks removes the file; with Size unknown it stays.
func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	for range 2 {
		ranks := []*Store{open(t, path, 3), open(t, path, 3), open(t, path, 3)}
		for i, r := range ranks {
			require.EqualValues(t, i+1, r.Joined())
			require.FileExists(t, path)
			require.NoError(t, r.Close())
		}
		require.NoFileExists(t, path)
	}
	require.NoError(t, open(t, path, 0).Close())
	require.FileExists(t, path)
}

// TestForeign: a file that another run has filled, finished or replaced is refused.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	a, b := open(t, path, 2), open(t, path, 2)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = Open(t.Context(), path, Options{Size: 2})
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "2 ranks have it open and 0 have closed it, of 2")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after, "a refused rank leaves no trace")

	require.NoError(t, os.Remove(path))
	_, err = a.Get(t.Context(), "k")
	require.ErrorIs(t, err, fs.ErrNotExist)
	other := open(t, path, 2)
	_, err = a.Get(t.Context(), "k")
	require.ErrorIs(t, err, errReplaced)
	require.ErrorIs(t, b.Set(t.Context(), "k", nil), errReplaced)
	require.ErrorIs(t, a.Close(), errReplaced)
	require.ErrorIs(t, b.Close(), errReplaced)
	require.NoError(t, other.Set(t.Context(), "k", nil))

	done := filepath.Join(t.TempDir(), "done")
	require.NoError(t, open(t, done, 0).Close())
	_, err = Open(t.Context(), done, Options{Size: 1})
	require.ErrorIs(t, err, ErrForeign)
}

func TestShrunk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s, err := Open(t.Context(), path, Options{})
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 3))
	_, err = s.ListKeys(t.Context())
	require.ErrorIs(t, err, errReplaced)
	require.ErrorIs(t, s.Close(), errReplaced)
}

// TestLocked: a lock that another holds is waited for, within the call's time.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path, 0)
	file, err := os.Open(path)
	require.NoError(t, err)
	got, err := tryLock(file, false)
	require.NoError(t, err)
	require.True(t, got)
	_, err = s.ListKeys(t.Context())
	require.NoError(t, err, "readers share")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Set(ctx, "k", nil), store.ErrTimeout)
	done := make(chan error, 1)
	go func() { done <- s.Set(t.Context(), "k", nil) }()
	time.Sleep(20 * time.Millisecond)
	require.Empty(t, done)
	require.NoError(t, file.Close())
	require.NoError(t, <-done)
}

func TestNoDirectory(t *testing.T) {
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "store"), Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}
