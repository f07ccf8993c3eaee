package nccl

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// ErrNotFound is wrapped by the error of Open where there is no library.
var ErrNotFound = errors.New("no NCCL library")

// UniqueID is made by one rank and handed to all others before they make a Comm.
type UniqueID [128]byte

// Library is the loaded library.
type Library struct {
	Path  string
	table [numSymbols]uintptr
}

// Comm is one rank's communicator.
type Comm struct {
	library *Library
	handle  uintptr
	size    int
}

// Version returns the library's version, such as 2.28.9.
func (l *Library) Version() (string, error) {
	var v int32
	err := l.check(getVersion, l.call(getVersion, uintptr(unsafe.Pointer(&v))))
	if v < 10000 {
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100), err
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100), err
}

// NewUniqueID makes the identity of a communicator.
func (l *Library) NewUniqueID() (*UniqueID, error) {
	id := new(UniqueID)
	return id, l.check(getUniqueID, l.call(getUniqueID, uintptr(unsafe.Pointer(id))))
}

// NewComm joins a communicator of size ranks on the current device. All ranks call it; it returns when all have.
func (l *Library) NewComm(id *UniqueID, rank, size int) (*Comm, error) {
	c := &Comm{library: l, size: size}
	return c, l.check(commInitRank, l.initRank(&c.handle, id, rank, size))
}

// Close destroys the communicator. All ranks call it.
func (c *Comm) Close() error {
	return c.library.check(commDestroy, c.library.call(commDestroy, c.handle))
}

// Abort destroys the communicator without the others, and ends what is pending on it.
func (c *Comm) Abort() error { return c.library.check(commAbort, c.library.call(commAbort, c.handle)) }

// Register tells the library that memory will be used often, so that it may map it; it reports whether the library has that
// function. Close ends it.
func (c *Comm) Register(at cuda.Pointer, bytes int) (bool, error) {
	if c.library.table[commRegister] == 0 {
		return false, nil
	}
	handle := new(uintptr)
	err := c.library.check(commRegister, c.library.call(commRegister, c.handle, uintptr(at), uintptr(bytes), uintptr(unsafe.Pointer(handle))))
	return err == nil, err
}

// AllReduce enqueues ncclAllReduce of count elements.
func (c *Comm) AllReduce(in, out cuda.Pointer, count int, d colligo.DType, k colligo.OpKind, s cuda.Stream) error {
	dt, op, err := codes(d, k)
	if err != nil {
		return err
	}
	return c.enqueue(allReduce, uintptr(in), uintptr(out), uintptr(count), dt, op, c.handle, uintptr(s))
}

// Reduce enqueues ncclReduce of count elements.
func (c *Comm) Reduce(in, out cuda.Pointer, count int, d colligo.DType, k colligo.OpKind, root int, s cuda.Stream) error {
	dt, op, err := codes(d, k)
	if err != nil {
		return err
	}
	return c.enqueue(reduce, uintptr(in), uintptr(out), uintptr(count), dt, op, uintptr(root), c.handle, uintptr(s))
}

// ReduceScatter enqueues ncclReduceScatter with count elements of output.
func (c *Comm) ReduceScatter(in, out cuda.Pointer, count int, d colligo.DType, k colligo.OpKind, s cuda.Stream) error {
	dt, op, err := codes(d, k)
	if err != nil {
		return err
	}
	return c.enqueue(reduceScatter, uintptr(in), uintptr(out), uintptr(count), dt, op, c.handle, uintptr(s))
}

// AllGather enqueues ncclAllGather with count elements of input.
func (c *Comm) AllGather(in, out cuda.Pointer, count int, d colligo.DType, s cuda.Stream) error {
	dt, _, err := codes(d, colligo.KindSum)
	if err != nil {
		return err
	}
	return c.enqueue(allGather, uintptr(in), uintptr(out), uintptr(count), dt, c.handle, uintptr(s))
}

// Broadcast enqueues ncclBroadcast of count elements.
func (c *Comm) Broadcast(in, out cuda.Pointer, count int, d colligo.DType, root int, s cuda.Stream) error {
	dt, _, err := codes(d, colligo.KindSum)
	if err != nil {
		return err
	}
	return c.enqueue(broadcast, uintptr(in), uintptr(out), uintptr(count), dt, uintptr(root), c.handle, uintptr(s))
}

// AllToAll enqueues what PyTorch's all_to_all_single does: a group of sends and receives of count elements for each pair.
func (c *Comm) AllToAll(in, out cuda.Pointer, count int, d colligo.DType, s cuda.Stream) error {
	dt, _, err := codes(d, colligo.KindSum)
	if err != nil {
		return err
	}
	err = c.enqueue(groupStart)
	for peer := 0; peer < c.size && err == nil; peer++ {
		at := cuda.Pointer(peer * count * d.Size())
		err = c.swap(in+at, out+at, count, dt, peer, peer, s)
	}
	return errors.Join(err, c.enqueue(groupEnd))
}

// SendRecv enqueues what PyTorch's batch_isend_irecv does of a send to one rank and a receive from one, of count elements each.
func (c *Comm) SendRecv(in, out cuda.Pointer, count int, d colligo.DType, to, from int, s cuda.Stream) error {
	dt, _, err := codes(d, colligo.KindSum)
	if err != nil {
		return err
	}
	return errors.Join(c.enqueue(groupStart), c.swap(in, out, count, dt, to, from, s), c.enqueue(groupEnd))
}

func (c *Comm) swap(in, out cuda.Pointer, count int, dt uintptr, to, from int, s cuda.Stream) error {
	return errors.Join(
		c.enqueue(send, uintptr(in), uintptr(count), dt, uintptr(to), c.handle, uintptr(s)),
		c.enqueue(recv, uintptr(out), uintptr(count), dt, uintptr(from), c.handle, uintptr(s)))
}

//go:uintptrescapes
func (c *Comm) enqueue(s symbol, words ...uintptr) error {
	return c.library.check(s, c.library.call(s, words...))
}

func (l *Library) check(s symbol, r uintptr) error {
	if r == 0 {
		return nil
	}
	last := ""
	if l.table[getLastError] != 0 {
		last = text(l.call(getLastError, 0))
	}
	e := fmt.Errorf("nccl: %s: %d, %s", names[s], r, text(l.call(getErrorString, r)))
	if last = strings.TrimSpace(last); last != "" {
		e = fmt.Errorf("%w: %s", e, last)
	}
	return e
}

// text copies a C string that the library owns.
func text(p uintptr) string {
	if p == 0 {
		return ""
	}
	start := *(*unsafe.Pointer)(unsafe.Pointer(&p)) // not Go memory: no rule about its conversion is broken
	n := 0
	for *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(start), n))
}

// codes translates to ncclDataType_t and ncclRedOp_t.
func codes(d colligo.DType, k colligo.OpKind) (dtype, op uintptr, err error) {
	dtypes := map[colligo.DType]uintptr{colligo.Int8: 0, colligo.Uint8: 1, colligo.Bool: 1, colligo.Int32: 2, colligo.Uint32: 3,
		colligo.Int64: 4, colligo.Uint64: 5, colligo.Float16: 6, colligo.Float32: 7, colligo.Float64: 8, colligo.BFloat16: 9,
		colligo.Float8E4M3FN: 10, colligo.Float8E5M2: 11}
	ops := map[colligo.OpKind]uintptr{colligo.KindSum: 0, colligo.KindProd: 1, colligo.KindMax: 2, colligo.KindMin: 3,
		colligo.KindAvg: 4}
	dtype, ok := dtypes[d]
	if !ok {
		return 0, 0, fmt.Errorf("nccl: no element type for %v", d)
	}
	op, ok = ops[k]
	if !ok {
		return 0, 0, fmt.Errorf("nccl: no reduction for %v", k)
	}
	return dtype, op, nil
}
