package cuda

import (
	"sync"
	"unsafe"
)

// A frame is what one call hands to C: the words, room for one result, and the list of kernel parameters. Frames are
// reused, so that the calls that make up a collective allocate nothing.
type frame struct {
	words  [16]uintptr
	out    uintptr
	params [1]unsafe.Pointer
}

var frames = sync.Pool{New: func() any { return new(frame) }}

// call calls the driver's function s. None of the words is an address of Go memory.
func (l *library) call(s symbol, words ...uintptr) Result {
	f := frames.Get().(*frame)
	n := copy(f.words[:], words)
	r := callC(l.address[s], f.words[:n])
	frames.Put(f)
	return r
}

// callOut is call with words that are addresses of Go memory, converted in the call's arguments: the directive puts what
// they point to on the heap and keeps it alive, and the words with it, so it allocates.
//
//go:uintptrescapes
func (l *library) callOut(s symbol, words ...uintptr) Result { return callC(l.address[s], words) }

// launch is call for the one function that is handed a list of pointers.
func (l *library) launch(fn Function, blocks, threads, shared uint32, s Stream, args unsafe.Pointer) Result {
	f := frames.Get().(*frame)
	f.params[0] = args
	f.words = [16]uintptr{uintptr(fn), uintptr(blocks), 1, 1, uintptr(threads), 1, 1, uintptr(shared), uintptr(s),
		uintptr(unsafe.Pointer(&f.params)), 0}
	r := callC(l.address[cuLaunchKernel], f.words[:11])
	f.params[0] = nil
	frames.Put(f)
	return r
}

// current is call for the one query of the hot path.
func (l *library) current() (Context, Result) {
	f := frames.Get().(*frame)
	f.words[0] = uintptr(unsafe.Pointer(&f.out))
	r := callC(l.address[cuCtxGetCurrent], f.words[:1])
	c := Context(f.out)
	frames.Put(f)
	return c, r
}
