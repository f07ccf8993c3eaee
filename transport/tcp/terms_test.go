package tcp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

// Terms say of which process a rank is. Ranks of other processes, and of versions that do not say it, are no company.
func TestTermsTellTheProcess(t *testing.T) {
	var wire bytes.Buffer
	mine := newTerms(&transport.Config{Lanes: 2, FrameBytes: 1 << 16, Compression: "s2", Checksum: true})
	require.NoError(t, mine.write(&wire))
	require.Equal(t, termsSize, wire.Len())
	theirs, err := readTerms(&wire)
	require.NoError(t, err)
	require.Equal(t, mine, theirs)

	var f forming
	f.note(terms{})
	f.note(terms{process: thisProcess + 2})
	require.False(t, f.company)
	f.note(theirs)
	f.note(terms{})
	require.True(t, f.company)
}
