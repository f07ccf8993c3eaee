package shm

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// A hello is what each side sends after the handshake, with the descriptor of its segment beside it. It is magic (8 bytes),
// then size, lanes, slots, frame, page and lines (4 bytes each, little-endian). The set of CPUs on which the
// rank may run follows. The token of its process, and the address at which the process has it (8 bytes), come last.
const (
	helloMagic = 0x376d6873676c63 // "clgshm7"
	cpuBytes   = 128
	helloSize  = 32 + cpuBytes + peermem.TokenBytes + 8
)

type hello struct {
	layout layout
	cpus   [cpuBytes]byte
	token  peermem.Token
	at     uint64 // address of the token in the process's memory
}

func (h *hello) encode() []byte {
	b := make([]byte, helloSize)
	le := binary.LittleEndian
	le.PutUint64(b, helloMagic)
	for i, v := range h.layout.numbers() {
		le.PutUint32(b[8+4*i:], uint32(v))
	}
	copy(b[32:], h.cpus[:])
	copy(b[32+cpuBytes:], h.token[:])
	le.PutUint64(b[helloSize-8:], h.at)
	return b
}

// decode compares a peer's hello with this rank's own layout.
func decode(b []byte, own layout) (h hello, err error) {
	le := binary.LittleEndian
	if got := le.Uint64(b); got != helloMagic {
		return h, fmt.Errorf("its hello begins with %#x, not %#x: another version of this library?", got, uint64(helloMagic))
	}
	var theirs [6]int
	for i := range theirs {
		theirs[i] = int(le.Uint32(b[8+4*i:]))
	}
	if want := own.numbers(); theirs != want {
		return h, fmt.Errorf("its segment has size, lanes, slots, frame, page and lines %v, this rank's %v", theirs, want)
	}
	h.layout = own
	copy(h.cpus[:], b[32:])
	copy(h.token[:], b[32+cpuBytes:])
	h.at = le.Uint64(b[helloSize-8:])
	return h, nil
}

func (l *layout) numbers() [6]int { return [6]int{l.size, l.lanes, l.slots, l.frame, l.page, l.lines} }

// ownCPUs is the set of CPUs on which this process may run.
func ownCPUs() (cpus [cpuBytes]byte) {
	var set unix.CPUSet
	known := unix.SchedGetaffinity(0, &set) == nil
	for i := range 8 * cpuBytes {
		if known && set.IsSet(i) || !known && i < runtime.NumCPU() {
			cpus[i/8] |= 1 << (i % 8)
		}
	}
	return cpus
}

// swap exchanges hellos and segments over a connection on which the handshake is done. The caller owns the descriptor
// that is returned.
func swap(ctx context.Context, conn *net.UnixConn, own *hello, fd int) (peer []byte, peerFD int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	n, _, err := conn.WriteMsgUnix(own.encode(), unix.UnixRights(fd), nil)
	if err != nil || n != helloSize {
		return nil, -1, fmt.Errorf("passing a segment, %d of %d bytes sent: %w", n, helloSize, err)
	}
	peer, oob := make([]byte, helloSize), make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(peer, oob)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, -1, fmt.Errorf("waiting for its segment: %w", err)
	}
	peerFD, err = passed(oob[:oobn])
	if err != nil && flags&unix.MSG_CTRUNC != 0 { // how the kernel says that this process may have no more descriptors
		err = fmt.Errorf("taking its segment: %w", unix.EMFILE)
	}
	if err != nil {
		return nil, -1, err
	}
	if _, err := io.ReadFull(conn, peer[n:]); err != nil {
		unix.Close(peerFD)
		return nil, -1, fmt.Errorf("hello cut short: %w", err)
	}
	return peer, peerFD, nil
}

// passed takes the one descriptor out of a control message.
func passed(oob []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1, fmt.Errorf("control message with its segment: %w", err)
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	if len(fds) == 1 {
		return fds[0], nil
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return -1, fmt.Errorf("its hello came with %d descriptors, not 1", len(fds))
}

// unite adds a set of CPUs to another.
func unite(all, more *[cpuBytes]byte) {
	for i := range all {
		all[i] |= more[i]
	}
}

// count returns how many CPUs are in a set.
func count(set *[cpuBytes]byte) int {
	n := 0
	for _, b := range set {
		n += bits.OnesCount8(b)
	}
	return n
}
