//go:build unix

package gloo_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// The commands of PyTorch 2's TCPStore that a rank of a Gloo job gives.
const (
	storeValidate = 0
	storeSet      = 1
	storeGet      = 3
	storeAdd      = 4
	storeCheck    = 5
	storeWait     = 6
	storeCancel   = 12
	storePing     = 13
)

// storeRequest is one request of a client of the store.
type storeRequest struct {
	cmd   byte
	keys  []string
	value []byte // of a set
	raw   []byte
}

// readRequest reads a request as the store's server does.
func readRequest(r io.Reader) (q storeRequest, err error) {
	var all bytes.Buffer
	r = io.TeeReader(r, &all)
	var b [8]byte
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return q, err
	}
	switch q.cmd = b[0]; q.cmd {
	case storeValidate, storePing:
		_, err = io.ReadFull(r, b[:4])
	case storeSet, storeGet, storeAdd:
		var key []byte
		key, err = readString(r)
		q.keys = []string{string(key)}
		if q.cmd == storeSet && err == nil {
			q.value, err = readString(r)
		} else if q.cmd == storeAdd && err == nil {
			_, err = io.ReadFull(r, b[:])
		}
	case storeCheck, storeWait:
		_, err = io.ReadFull(r, b[:])
		for n := binary.LittleEndian.Uint64(b[:]); n > 0 && err == nil; n-- {
			var key []byte
			key, err = readString(r)
			q.keys = append(q.keys, string(key))
		}
	case storeCancel:
	default:
		err = fmt.Errorf("command %d, which is not known here", q.cmd)
	}
	q.raw = all.Bytes()
	return q, err
}

// readReply reads what the server answers to a command.
func readReply(r io.Reader, cmd byte) ([]byte, error) {
	n := map[byte]int{storePing: 4, storeAdd: 8, storeCheck: 1, storeWait: 1, storeCancel: 1}[cmd]
	if cmd == storeGet {
		v, err := readString(r)
		return append(binary.LittleEndian.AppendUint64(nil, uint64(len(v))), v...), err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

func readString(r io.Reader) ([]byte, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > 1<<20 {
		return nil, fmt.Errorf("a string of %d bytes", n)
	}
	s := make([]byte, n)
	_, err := io.ReadFull(r, s)
	return s, err
}

// linkOf splits a key under which a rank of a Gloo group publishes its address: into the group's part, and the rank.
func linkOf(key string) (group string, rank int, ok bool) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 || !strings.Contains(key, "//cpu//") {
		return "", 0, false
	}
	_, err := fmt.Sscanf(key[i+1:], "%d", &rank)
	return key[:i+1], rank, err == nil
}

// alike is a request without what differs from run to run: the process's number, and host and address of the rank.
func (q *storeRequest) alike() string {
	switch _, _, link := linkOf(strings.Join(q.keys, "")); {
	case q.cmd == storePing:
		return "ping"
	case q.cmd == storeSet && link:
		p, err := cutPublished(q.value)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("set %s: sequence numbers %x", q.keys[0], p.ids)
	}
	return string(q.raw)
}
