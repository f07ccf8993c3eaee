//go:build unix

package gloo_test

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"os"
)

// recording is what a rank in Go has said and heard in a job whose other ranks were PyTorch's.
type recording struct {
	Torch      string
	Size, Rank int
	Ops        []string
	Results    []string // lines of the rank in Go
	Store      []exchange
	Links      map[string]*link // by the key under which the peer has published its address
}

// exchange is a request to the store and what it has answered.
type exchange struct{ Request, Reply []byte }

// link is what went over a connection to a peer.
type link struct {
	Sent  []byte // by the rank in Go; it begins with the eight bytes that introduce the rank
	Heard []byte
}

func (r *recording) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(z).Encode(r); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

func loadRecording(path string) (*recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	r := new(recording)
	return r, gob.NewDecoder(z).Decode(r)
}

// message is one message of a connection, with its head.
type message struct {
	op, slot, n uint64
	raw         []byte
}

// cutMessages cuts what one side of a connection has said into messages.
func cutMessages(b []byte) (all []message, err error) {
	for len(b) > 0 {
		if len(b) < headBytes {
			return nil, fmt.Errorf("%d bytes at the end are no message", len(b))
		}
		total := binary.LittleEndian.Uint64(b)
		if total < headBytes || total > uint64(len(b)) {
			return nil, fmt.Errorf("a message of %d bytes where %d are left", total, len(b))
		}
		all = append(all, message{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[32:]), b[:total]})
		b = b[total:]
	}
	return all, nil
}

// kinds are the bytes of a connection's messages by slot and opcode, each in its order. Between slots, and between notices and payloads,
// the order depends on when messages of the other side arrive.
type kind struct{ slot, op uint64 }

func kinds(said []byte) (map[kind][]byte, error) {
	all, err := cutMessages(said)
	by := map[kind][]byte{}
	for _, m := range all {
		k := kind{m.slot, m.op}
		by[k] = append(by[k], m.raw...)
	}
	return by, err
}
