package filestore

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/colligo-go/colligo/store"
)

// maxKey is the longest key in the file: a deleted user key of the greatest length.
const maxKey = store.MaxKey + int64(len(deleted)+len(userPrefix))

// appendRecord appends the record of key and val to buf.
func appendRecord(buf []byte, key string, val []byte) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(key)))
	buf = append(buf, key...)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(val)))
	return append(buf, val...)
}

// log reads records. left is what remains of the file, so no record can be longer.
type log struct {
	r    *bufio.Reader
	left int64
}

// next reads one record and returns its length in the file.
func (l *log) next() (key string, val []byte, n int64, err error) {
	before := l.left
	k, err := l.field("key", maxKey)
	if err != nil {
		return "", nil, 0, err
	}
	if val, err = l.field("value", store.MaxValue); err != nil {
		return "", nil, 0, err
	}
	return string(k), val, before - l.left, nil
}

// field reads a length and the bytes that follow.
func (l *log) field(what string, limit int64) ([]byte, error) {
	var head [4]byte
	if l.left < int64(len(head)) {
		return nil, fmt.Errorf("record is cut off: %d bytes left where a %s's length is due", l.left, what)
	}
	if _, err := io.ReadFull(l.r, head[:]); err != nil {
		return nil, err
	}
	l.left -= int64(len(head))
	n := int64(binary.LittleEndian.Uint32(head[:]))
	switch {
	case n > limit:
		return nil, fmt.Errorf("%s of %d bytes exceeds %d", what, n, limit)
	case n > l.left:
		return nil, fmt.Errorf("record is cut off: %s of %d bytes, %d left", what, n, l.left)
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(l.r, buf); err != nil {
		return nil, err
	}
	l.left -= n
	return buf, nil
}
