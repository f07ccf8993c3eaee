package nccl

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
)

// endable is a backend that notes when it was aborted.
type endable struct {
	backend.Backend
	cause error
}

func (e *endable) Abort(cause error) { e.cause = cause }

// TestAbortBehindCommunicators lets the steps within a host go when the communicators are aborted, or after a moment if they wait for those
// steps themselves.
func TestAbortBehindCommunicators(t *testing.T) {
	gone := errors.New("gone")
	synctest.Test(t, func(t *testing.T) {
		local, communicators := &endable{}, sync.WaitGroup{}
		l := &levels{local: local}
		communicators.Add(1)
		go l.abort(gone, &communicators)
		time.Sleep(abortMoment / 2)
		synctest.Wait()
		require.NoError(t, local.cause)
		communicators.Done()
		synctest.Wait()
		require.Equal(t, gone, local.cause)

		*local = endable{}
		communicators.Add(1)
		begin := time.Now()
		l.abort(gone, &communicators)
		require.Equal(t, gone, local.cause)
		require.Equal(t, abortMoment, time.Since(begin))
		communicators.Done()
	})
}
