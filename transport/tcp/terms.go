package tcp

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/colligo-go/colligo/transport"
)

// terms is what both ends of every connection must agree on beyond the handshake. The dialer writes its own; the acceptor
// answers with its own and a verdict. They are lanes (2 bytes), compression (1), checksum (1), frame (4), verdict (1),
// process (4) and zeros (3). Integers are little-endian.
type terms struct {
	lanes       uint16
	compression byte
	checksum    byte
	frame       uint32
	verdict     byte
	process     uint32 // a number that its ranks share, and likely no others; 0 where the version does not say it
}

// thisProcess is the number of this process.
var thisProcess = rand.Uint32() | 1

const (
	termsSize = 16
	welcome   = 1
	duplicate = 2
)

var compressions = []string{"", "s2", "zstd"}

func newTerms(c *transport.Config) terms {
	t := terms{lanes: uint16(c.Lanes), frame: uint32(c.FrameBytes), process: thisProcess}
	for i, name := range compressions {
		if name == c.Compression {
			t.compression = byte(i)
		}
	}
	if c.Checksum {
		t.checksum = 1
	}
	return t
}

func (t terms) write(w io.Writer) error {
	var b [termsSize]byte
	binary.LittleEndian.PutUint16(b[0:], t.lanes)
	b[2], b[3] = t.compression, t.checksum
	binary.LittleEndian.PutUint32(b[4:], t.frame)
	b[8] = t.verdict
	binary.LittleEndian.PutUint32(b[9:], t.process)
	_, err := w.Write(b[:])
	return err
}

func readTerms(r io.Reader) (t terms, err error) {
	var b [termsSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return t, fmt.Errorf("terms cut short: %w", err)
	}
	t.lanes, t.compression, t.checksum = binary.LittleEndian.Uint16(b[0:]), b[2], b[3]
	t.frame, t.verdict = binary.LittleEndian.Uint32(b[4:]), b[8]
	t.process = binary.LittleEndian.Uint32(b[9:])
	return t, nil
}

// differ says what a peer has otherwise.
func (t terms) differ(theirs terms) error {
	switch {
	case t.lanes != theirs.lanes:
		return fmt.Errorf("has %d lanes, here it is %d", theirs.lanes, t.lanes)
	case t.frame != theirs.frame:
		return fmt.Errorf("has frames of %d bytes, here it is %d", theirs.frame, t.frame)
	case t.checksum != theirs.checksum:
		return fmt.Errorf("has checksums %s, here they are %s", onOff(theirs.checksum), onOff(t.checksum))
	case t.compression != theirs.compression:
		return fmt.Errorf("has compression %s, here it is %s", compressionName(theirs.compression), compressionName(t.compression))
	}
	return nil
}

func onOff(b byte) string {
	if b != 0 {
		return "on"
	}
	return "off"
}

func compressionName(b byte) string {
	switch {
	case b == 0:
		return "off"
	case int(b) < len(compressions):
		return compressions[b]
	}
	return fmt.Sprintf("number %d", b)
}
