package cudasim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimit names a test whose machine takes no steps, and one that runs too long.
func TestLimit(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	began, said := time.Now(), ""
	l := newLimit("TestOfOthers", s, began, func(report string) { said = report })
	l.look(began.Add(longestSilence - time.Second))
	require.Empty(t, said)
	s.steps++
	l.look(began.Add(longestSilence + time.Second))
	require.Empty(t, said, "it has moved")
	l.look(began.Add(2*longestSilence + time.Second))
	require.Contains(t, said, "TestOfOthers hangs: it has run for 1m41s, and its simulated machine has taken no step for 50s\n")
	require.Contains(t, said, "no call waits")
	s.steps, said = s.steps+1, ""
	l.look(began.Add(longestTest))
	require.Empty(t, said, "its process had few processors")
	require.Eventually(t, func() bool { return l.used() > 0 }, 10*time.Second, time.Millisecond)
	l.used = func() time.Duration { return longestTest }
	s.steps++
	l.look(began.Add(longestTest))
	require.Contains(t, said, "TestOfOthers hangs: it has run for 5m0s")
	Limit(t, s)
	said, s.closed, s.running = "", true, true
	l.look(began.Add(longestTest))
	require.Contains(t, said, "TestOfOthers hangs", "it does not come to its end")
	said, s.closed, s.running = "", false, false
	s.Close()
	l.look(began.Add(longestTest))
	require.Empty(t, said, "a closed machine takes no steps")
}

// TestLimitOfPolls names a test whose host moves the machine for ever by copies of a flag. Another stream waits for a word that nobody
// writes. A stream that goes on writing is no hang, nor is a machine that takes few steps with each of which memory changes.
func TestLimitOfPolls(t *testing.T) {
	s := New(Config{Patience: time.Hour})
	defer s.Close()
	Limit(t, s)
	d, err := s.Driver().Device(0)
	require.NoError(t, err)
	th, err := d.Enter()
	require.NoError(t, err)
	defer th.Leave()
	at, err := th.Alloc(64)
	require.NoError(t, err)
	stuck, err := th.NewStream(0)
	require.NoError(t, err)
	polled, err := th.NewStream(0)
	require.NoError(t, err)
	require.NoError(t, th.Set8(at, 0, 64, polled))
	require.NoError(t, th.Synchronize(polled))
	began, said := time.Now(), ""
	l := newLimit("TestOfOthers", s, began, func(report string) { said = report })
	works, steps := false, uint64(0)
	poll := func(from, to time.Duration) {
		for after := from; after <= to; after += longestSilence / 10 {
			require.NoError(t, th.Copy(at+32, at+16, 4, polled))
			if works {
				require.NoError(t, th.Write32(polled, at+48, uint32(after)))
			}
			require.NoError(t, th.Synchronize(polled))
			s.lock()
			s.steps += steps
			s.unlock()
			l.look(began.Add(after))
		}
	}
	poll(0, 2*longestSilence)
	require.Empty(t, said, "nothing stands still")
	require.NoError(t, th.Wait32(stuck, at, 1))
	poll(2*longestSilence, 3*longestSilence-time.Second)
	require.Empty(t, said)
	poll(3*longestSilence, 3*longestSilence)
	require.Contains(t, said, "TestOfOthers hangs: it has run for 2m30s, and StreamWaitValue32 on device 0")
	require.Contains(t, said, "has neither ended nor written for 50s, while its simulated machine went on\n")
	require.Contains(t, said, "which waits until word 0 of memory")
	l.began, said, works = began.Add(3*longestSilence), "", true
	poll(3*longestSilence, 5*longestSilence)
	require.Empty(t, said, "few steps that change memory are those of a busy machine")
	steps = manySteps / 5
	poll(5*longestSilence, 5*longestSilence+longestSilence/2)
	require.Contains(t, said, "has neither ended nor written for 2m55s, while its simulated machine went on\n", "steps for ever")
	require.NoError(t, th.Write32(polled, at, 1))
	require.NoError(t, th.Synchronize(stuck))
}
