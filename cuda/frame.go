package cuda

import (
	"sync"
	"unsafe"

	"github.com/colligo-go/colligo/cuda/internal/ccall"
)

// A frame has everything that one call hands to C: its words, room for one result, kernel parameters, and the attributes of
// a launch ahead. Frames are reused, so that the calls that make up a collective allocate nothing.
type frame struct {
	ccall.Frame
	out       uintptr
	status    CaptureStatus
	params    [1]unsafe.Pointer
	config    launchConfig
	attribute launchAttribute
	node      kernelNode
	pair      pair
}

// launchConfig says how cuLaunchKernelEx launches a kernel; it has the layout of CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared, _   uint32
	stream      Stream
	attributes  *launchAttribute
	count, _    uint32
}

// launchAttribute is one attribute of a launch; it has the layout of CUlaunchAttribute.
type launchAttribute struct {
	id, _ uint32
	value uint32
	_     [60]byte
}

// kernelNode describes the kernel of a graph's node; it has the layout of CUDA_KERNEL_NODE_PARAMS_v2.
type kernelNode struct {
	function    Function
	grid, block [3]uint32
	shared, _   uint32
	params      *[1]unsafe.Pointer
	extra       uintptr
	kernel      uintptr
	context     Context
}

// streamSerialization lets a kernel begin before the one in front of it has ended
// (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).
const streamSerialization = 6

var frames = sync.Pool{New: func() any {
	f := &frame{attribute: launchAttribute{id: streamSerialization, value: 1}}
	f.config = launchConfig{grid: [3]uint32{1, 1, 1}, block: [3]uint32{1, 1, 1}, attributes: &f.attribute, count: 1}
	return f
}}

// call calls a function of C with the first n words.
func (f *frame) call(address uintptr, n int) Result { return Result(f.Call(address, n)) }

// call calls the driver's function s. None of the words is an address of Go memory.
func (l *library) call(s symbol, words ...uintptr) Result {
	return Result(ccall.Words(l.address[s], words...))
}

// callOut makes a call whose words are addresses of Go memory, converted in the call's arguments. The directive puts the
// memory that they point to on the heap and keeps it alive. It does so with the words, too, so the call allocates.
//
//go:uintptrescapes
func (l *library) callOut(s symbol, words ...uintptr) Result {
	return Result(ccall.Words(l.address[s], words...))
}

// launch calls the one function that is handed a list of pointers.
func (l *library) launch(fn Function, blocks, threads, shared uint32, s Stream, args unsafe.Pointer) Result {
	f := frames.Get().(*frame)
	f.params[0] = args
	f.Words = [ccall.MaxWords]uintptr{uintptr(fn), uintptr(blocks), 1, 1, uintptr(threads), 1, 1, uintptr(shared), uintptr(s),
		uintptr(unsafe.Pointer(&f.params)), 0}
	r := f.call(l.address[cuLaunchKernel], 11)
	f.params[0] = nil
	frames.Put(f)
	return r
}

// launchAhead launches a kernel with the attribute that lets it begin early. The frame has what is the same in every launch.
func (l *library) launchAhead(fn Function, blocks, threads, shared uint32, s Stream, args unsafe.Pointer) Result {
	f := frames.Get().(*frame)
	f.params[0] = args
	c := &f.config
	c.grid[0], c.block[0], c.shared, c.stream = blocks, threads, shared, s
	f.Words[0], f.Words[1] = uintptr(unsafe.Pointer(c)), uintptr(fn)
	f.Words[2], f.Words[3] = uintptr(unsafe.Pointer(&f.params)), 0
	r := f.call(l.address[cuLaunchKernelEx], 4)
	f.params[0] = nil
	frames.Put(f)
	return r
}

// setKernel makes the kernel of a graph's node another one.
func (l *library) setKernel(e GraphExec, n GraphNode, fn Function, blocks, threads, shared uint32, args unsafe.Pointer) Result {
	f := frames.Get().(*frame)
	f.params[0] = args
	f.node = kernelNode{function: fn, grid: [3]uint32{blocks, 1, 1}, block: [3]uint32{threads, 1, 1}, shared: shared, params: &f.params}
	f.Words[0], f.Words[1], f.Words[2] = uintptr(e), uintptr(n), uintptr(unsafe.Pointer(&f.node))
	r := f.call(l.address[cuGraphExecKernelNodeSetParams], 3)
	f.params[0] = nil
	frames.Put(f)
	return r
}

// captureInfo makes the query of a stream's capture, which every small collective makes.
func (l *library) captureInfo(s Stream) (CaptureStatus, uint64, Result) {
	f := frames.Get().(*frame)
	f.status, f.out = 0, 0
	f.Words = [ccall.MaxWords]uintptr{uintptr(s), uintptr(unsafe.Pointer(&f.status)), uintptr(unsafe.Pointer(&f.out))}
	r := f.call(l.address[cuStreamGetCaptureInfo], 6)
	status, id := f.status, uint64(f.out)
	frames.Put(f)
	return status, id, r
}

// current makes the query of the thread's context, the one query of every operation. The driver reads a variable of the thread for it.
func (l *library) current() (Context, Result) {
	c, r := ccall.Word(l.address[cuCtxGetCurrent])
	return Context(c), Result(r)
}
