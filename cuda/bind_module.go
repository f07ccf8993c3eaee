package cuda

import "unsafe"

// Options of cuModuleLoadDataEx: buffers for the compiler's words.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
	logBytes        = 16 << 10
)

func (l *library) bindModules(d *Driver) {
	d.ModuleLoadDataEx = l.loadModule
	d.ModuleUnload = func(m Module) Result { return l.call(cuModuleUnload, uintptr(m)) }
	d.ModuleGetFunction = func(m Module, name string) (Function, Result) {
		var f Function
		b := append([]byte(name), 0)
		r := l.callOut(cuModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&b[0])))
		return f, r
	}
	d.FuncLoad = func(f Function) Result {
		if l.address[cuFuncLoad] != 0 {
			return l.call(cuFuncLoad, uintptr(f))
		}
		_, r := d.FuncGetAttribute(Registers, f) // cuFuncLoad is younger than CUDA 12.4
		return r
	}
	d.FuncGetAttribute = func(a FunctionAttribute, f Function) (int, Result) {
		return l.integer(cuFuncGetAttribute, int32Word(int32(a)), uintptr(f))
	}
	d.LaunchKernel = l.launch
	if l.address[cuLaunchKernelEx] != 0 {
		d.LaunchAhead = l.launchAhead
	}
}

func (l *library) loadModule(image []byte) (Module, string, Result) {
	var m Module
	log := make([]byte, logBytes)
	options := [2]int32{jitErrorLog, jitErrorLogSize}
	values := struct { // one word each, as void * in C
		log  *byte
		size uintptr
	}{&log[0], logBytes - 1}
	r := l.callOut(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&image[0])), uintptr(len(options)),
		uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&values)))
	return m, cString(log), r
}

func (l *library) bindGraphs(d *Driver) {
	d.GraphInstantiate = func(g Graph) (GraphExec, Result) {
		v, r := l.word(cuGraphInstantiate, uintptr(g), 0)
		return GraphExec(v), r
	}
	d.GraphLaunch = func(e GraphExec, s Stream) Result { return l.call(cuGraphLaunch, uintptr(e), uintptr(s)) }
	d.GraphLaunchOutside = l.launchOutside
	d.GraphExecDestroy = func(e GraphExec) Result { return l.call(cuGraphExecDestroy, uintptr(e)) }
	d.GraphDestroy = func(g Graph) Result { return l.call(cuGraphDestroy, uintptr(g)) }
	d.GraphGetNodes = func(g Graph) (GraphNode, Result) {
		var n GraphNode
		count := uintptr(1)
		r := l.callOut(cuGraphGetNodes, uintptr(g), uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&count)))
		return n, r
	}
	if l.address[cuGraphExecKernelNodeSetParams] != 0 {
		d.GraphExecKernelNodeSetParams = l.setKernel
	}
}
