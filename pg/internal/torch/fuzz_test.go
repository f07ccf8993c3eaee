package torch

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/store"
)

// told is a store that answers whatever others say: counters by the integers of a text, and keys by the same text.
type told struct {
	store.Store
	says []byte
	asks int
}

func (s *told) Add(context.Context, string, int64) (int64, error) {
	s.asks++
	if len(s.says) < 8 {
		return 0, store.ErrClosed
	}
	n := int64(binary.LittleEndian.Uint64(s.says))
	s.says = s.says[8:]
	return n, nil
}

func (s *told) Get(context.Context, string) ([]byte, error) { return s.says, nil }

// FuzzMeet has others count anything in the barrier of PyTorch 1.13's ranks, and publish anything as the number of a group's first
// operation. The barrier opens at the first count that is enough, and not before. The number may be anything, for nothing depends on it.
func FuzzMeet(f *testing.F) {
	counts := func(all ...int64) (b []byte) {
		for _, n := range all {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		return b
	}
	f.Add(counts(1, 2, 3), 3)
	f.Add(counts(-1, -1<<63, 1<<62), 2)
	f.Add(counts(0), 1)
	f.Add([]byte("x"), 5)
	f.Fuzz(func(t *testing.T, says []byte, job int) {
		if job < 1 {
			return
		}
		synctest.Test(t, func(t *testing.T) { // whose clock passes the pauses between looks
			s := &told{says: says}
			r := &Rendezvous{Version: backend.Version{Major: 1, Minor: 13}, Store: s, Name: "0", Number: 1, Rank: 1, Job: job}
			enough := 0
			for ; enough < len(says)/8 && int64(binary.LittleEndian.Uint64(says[8*enough:])) < int64(job); enough++ {
			}
			limit, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err := r.Meet(limit)
			require.Equal(t, enough == len(says)/8, err != nil)
			require.Equal(t, enough+1, s.asks)
			require.NoError(t, r.Agree(limit))
		})
	})
}
