package tcpstore

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/colligo-go/colligo/store"
)

// The command bytes of PyTorch 2.11; barrier came in 2.12.
const (
	cmdValidate   = 0
	cmdSet        = 1
	cmdCompareSet = 2
	cmdGet        = 3
	cmdAdd        = 4
	cmdCheck      = 5
	cmdWait       = 6
	cmdNumKeys    = 7
	cmdDelete     = 8
	cmdAppend     = 9
	cmdMultiGet   = 10
	cmdMultiSet   = 11
	cmdCancelWait = 12
	cmdPing       = 13
	cmdQueuePush  = 14
	cmdQueuePop   = 15
	cmdQueueLen   = 16
	cmdListKeys   = 17
	cmdBarrier    = 18
	commands      = 19
)

const (
	magic = 0x3C85F7CE // after cmdValidate

	checkReady    = 0
	checkNotReady = 1
	waitStopped   = 0
	waitCanceled  = 1

	userPrefix = "/"     // before every user key
	workersKey = "init/" // counts the workers that joined; has no prefix

	// maxKeyBytes bounds the keys of one request together. PyTorch has no such limit, and so would take 1 GiB.
	maxKeyBytes = 64 << 20
	// maxReply bounds a value in a reply: appending may grow one beyond store.MaxValue.
	maxReply = 1 << 30
	// maxListed bounds the number of keys in a reply to cmdListKeys.
	maxListed = 1 << 24

	bufferSize = 2 << 10  // of a connection's reader; requests are short and idle connections many
	growStep   = 64 << 10 // memory taken for a string before its bytes arrive
)

// request is a request being put together; it is sent with one write.
type request []byte

func (q request) string(s string) request {
	return append(binary.LittleEndian.AppendUint64(q, uint64(len(s))), s...)
}

func (q request) bytes(b []byte) request {
	return append(binary.LittleEndian.AppendUint64(q, uint64(len(b))), b...)
}

func (q request) int64(n int64) request { return binary.LittleEndian.AppendUint64(q, uint64(n)) }

func (q request) uint32(n uint32) request { return binary.LittleEndian.AppendUint32(q, n) }

func (q request) strings(list []string) request {
	q = q.int64(int64(len(list)))
	for _, s := range list {
		q = q.string(s)
	}
	return q
}

// reader reads what either side sends. Inside a message, the end of the stream is io.ErrUnexpectedEOF.
type reader struct{ *bufio.Reader }

func newReader(r io.Reader) reader { return reader{bufio.NewReaderSize(r, bufferSize)} }

func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r reader) fixed(n int) ([]byte, error) {
	b, err := r.Peek(n)
	if err != nil {
		return nil, inside(err)
	}
	_, err = r.Discard(n)
	return b, err
}

func (r reader) byte() (byte, error) {
	b, err := r.ReadByte()
	return b, inside(err)
}

func (r reader) uint32() (uint32, error) {
	b, err := r.fixed(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r reader) uint64() (uint64, error) {
	b, err := r.fixed(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (r reader) int64() (int64, error) {
	n, err := r.uint64()
	return int64(n), err
}

// bytes reads a string of at most limit bytes; what says what it is, for the error.
func (r reader) bytes(what string, limit uint64) ([]byte, error) {
	n, err := r.uint64()
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("%s of %d bytes exceeds %d", what, n, limit)
	}
	buf := make([]byte, 0, min(n, growStep))
	for uint64(len(buf)) < n {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, int(min(n-uint64(len(buf)), uint64(len(buf)))))
		}
		end := int(min(n, uint64(cap(buf))))
		got, err := io.ReadFull(r, buf[len(buf):end])
		if buf = buf[:len(buf)+got]; err != nil {
			return nil, inside(err)
		}
	}
	return buf, nil
}

func (r reader) key() (string, error) {
	b, err := r.bytes("key", store.MaxKey)
	return string(b), err
}

func (r reader) value() ([]byte, error) { return r.bytes("value", store.MaxValue) }

// count reads the number of keys of a request.
func (r reader) count() (int, error) {
	n, err := r.uint64()
	if err == nil && n > store.MaxKeys {
		err = fmt.Errorf("%d keys in one request exceed %d", n, store.MaxKeys)
	}
	return int(n), err
}

func (r reader) keys() ([]string, error) {
	n, err := r.count()
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, min(n, 1024))
	for total := 0; len(keys) < n; {
		k, err := r.key()
		if err != nil {
			return nil, err
		}
		if total += len(k); total > maxKeyBytes {
			return nil, fmt.Errorf("%d bytes of keys in one request exceed %d", total, maxKeyBytes)
		}
		keys = append(keys, k)
	}
	return keys, nil
}
