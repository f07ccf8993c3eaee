package peermem

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemory reads this process's own memory, and nothing else.
func TestMemory(t *testing.T) {
	p, mine := make([]byte, 5000), NewToken()
	for i := range p {
		p[i] = byte(i)
	}
	own := Open(os.Getpid(), *mine, mine.Address())
	require.NotNil(t, own)
	got := make([]byte, len(p))
	require.True(t, own.Read(got, Address(p)))
	require.True(t, bytes.Equal(p, got))
	require.False(t, own.Read(got, 1))
	require.Nil(t, Open(os.Getpid(), *NewToken(), mine.Address()), "another token")
	require.Nil(t, Open(0, *mine, mine.Address()))
	require.Nil(t, Open(1<<30, *mine, mine.Address()))
	mine.Clear()
	require.False(t, own.Read(got, Address(p)), "the memory was taken back")
}

// TestMemoryIsProbedOnce has a process that was read once not read again to find out, whoever has its number now.
func TestMemoryIsProbedOnce(t *testing.T) {
	const nobody = 1<<30 + 1 // no process has this number
	mine := NewToken()
	at := mine.Address()
	require.Nil(t, Open(nobody, *mine, at))
	processes.Store(nobody, identity{*mine, at})
	defer processes.Delete(nobody)
	m := Open(nobody, *mine, at)
	require.NotNil(t, m)
	require.False(t, m.Read(make([]byte, 1), at), "each read still asks for the token")
	require.Nil(t, Open(nobody, *NewToken(), at), "another process of this number")
	require.Nil(t, Open(nobody, *mine, at+1))

	require.NotNil(t, Open(os.Getpid(), *mine, at))
	got, ok := processes.Load(os.Getpid())
	require.True(t, ok, "a process that was read is noted")
	require.Equal(t, identity{*mine, at}, got)
}
