package cudasim

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// tableFields are the names of the table's functions.
var tableFields = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cuda.Driver]()) {
		if f.Type.Kind() == reflect.Func {
			names[f.Name] = true
		}
	}
	return names
})

func (p *Process) driver() *cuda.Driver {
	d := &cuda.Driver{Path: "cudasim"}
	p.bindDevices(d)
	p.bindContexts(d)
	p.bindStreams(d)
	p.bindCapture(d)
	p.bindEvents(d)
	p.bindMemory(d)
	p.bindHost(d)
	p.bindVirtual(d)
	p.bindModules(d)
	return d
}

func (p *Process) bindDevices(d *cuda.Driver) {
	d.GetErrorName = resultName
	d.GetErrorString = resultText
	d.Init = func() cuda.Result { return p.do("Init", 0, func(*call) cuda.Result { return cuda.Success }) }
	d.DriverGetVersion = func() (int, cuda.Result) {
		return get(p, "DriverGetVersion", 0, func(*call) (int, cuda.Result) { return driverVersion, cuda.Success })
	}
	d.DeviceGetCount = func() (int, cuda.Result) {
		return get(p, "DeviceGetCount", stepless, func(*call) (int, cuda.Result) { return len(p.visible), cuda.Success })
	}
	d.DeviceGet = func(i int) (cuda.DeviceID, cuda.Result) {
		return get(p, "DeviceGet", stepless, func(c *call) (cuda.DeviceID, cuda.Result) { return c.deviceGet(i) })
	}
	d.DeviceGetName = func(cuda.DeviceID) (string, cuda.Result) {
		return get(p, "DeviceGetName", 0, func(*call) (string, cuda.Result) { return "Simulated GPU", cuda.Success })
	}
	d.DeviceGetUUID = func(id cuda.DeviceID) ([16]byte, cuda.Result) {
		return get(p, "DeviceGetUUID", stepless, func(c *call) ([16]byte, cuda.Result) { return c.deviceGetUUID(id) })
	}
	d.DeviceGetPCIBusID = func(id cuda.DeviceID) (string, cuda.Result) {
		return get(p, "DeviceGetPCIBusID", 0, func(c *call) (string, cuda.Result) { return c.deviceGetPCIBusID(id) })
	}
	d.DeviceTotalMem = func(cuda.DeviceID) (uint64, cuda.Result) {
		return get(p, "DeviceTotalMem", 0, func(c *call) (uint64, cuda.Result) { return uint64(c.sim.config.Memory), cuda.Success })
	}
	d.DeviceGetAttribute = func(a cuda.Attribute, id cuda.DeviceID) (int, cuda.Result) {
		return get(p, "DeviceGetAttribute", stepless, func(c *call) (int, cuda.Result) { return c.deviceGetAttribute(a, id) })
	}
	d.DeviceCanAccessPeer = func(id, peer cuda.DeviceID) (bool, cuda.Result) {
		return get(p, "DeviceCanAccessPeer", stepless, func(c *call) (bool, cuda.Result) { return c.deviceCanAccessPeer(id, peer) })
	}
	d.DeviceGetP2PAttribute = func(a cuda.P2PAttribute, src, dst cuda.DeviceID) (int, cuda.Result) {
		return get(p, "DeviceGetP2PAttribute", 0, func(c *call) (int, cuda.Result) { return c.deviceGetP2PAttribute(a, src, dst) })
	}
}

func (p *Process) bindContexts(d *cuda.Driver) {
	d.DevicePrimaryCtxRetain = func(id cuda.DeviceID) (cuda.Context, cuda.Result) {
		return get(p, "DevicePrimaryCtxRetain", 0, func(c *call) (cuda.Context, cuda.Result) { return c.devicePrimaryCtxRetain(id) })
	}
	d.DevicePrimaryCtxRelease = func(id cuda.DeviceID) cuda.Result {
		return p.do("DevicePrimaryCtxRelease", 0, func(c *call) cuda.Result { return c.devicePrimaryCtxRelease(id) })
	}
	d.CtxGetCurrent = func() (cuda.Context, cuda.Result) {
		return get(p, "CtxGetCurrent", unlocked|stepless, (*call).ctxGetCurrent)
	}
	d.CtxSetCurrent = func(h cuda.Context) cuda.Result {
		return p.do("CtxSetCurrent", unlocked|stepless, func(c *call) cuda.Result { return c.ctxSetCurrent(h) })
	}
	d.CtxGetStreamPriorityRange = func() (int, int, cuda.Result) {
		r := p.do("CtxGetStreamPriorityRange", needsContext|stepless, func(*call) cuda.Result { return cuda.Success })
		if r != cuda.Success {
			return 0, 0, r
		}
		return leastPriority, greatestPriority, r
	}
	d.CtxEnablePeerAccess = func(peer cuda.Context) cuda.Result {
		return p.do("CtxEnablePeerAccess", needsContext, func(c *call) cuda.Result { return c.ctxEnablePeerAccess(peer) })
	}
}

func (p *Process) bindStreams(d *cuda.Driver) {
	d.StreamCreateWithPriority = func(flags cuda.StreamFlags, priority int) (cuda.Stream, cuda.Result) {
		return get(p, "StreamCreateWithPriority", needsContext, func(c *call) (cuda.Stream, cuda.Result) { return c.streamCreate(flags, priority) })
	}
	on := func(function string, n need, f func(c *call, st *stream) cuda.Result) func(cuda.Stream) cuda.Result {
		return func(h cuda.Stream) cuda.Result {
			return p.do(function, n, func(c *call) cuda.Result {
				st, r := c.stream(h)
				if r != cuda.Success {
					return r
				}
				return f(c, st)
			})
		}
	}
	d.StreamDestroy = on("StreamDestroy", needsContext, (*call).streamDestroy)
	d.StreamQuery = on("StreamQuery", needsContext, (*call).streamQuery)
	d.StreamSynchronize = on("StreamSynchronize", needsContext|stepless, (*call).streamSynchronize)
	d.StreamWaitEvent = func(h cuda.Stream, e cuda.Event) cuda.Result {
		return on("StreamWaitEvent", needsContext, func(c *call, st *stream) cuda.Result { return c.streamWaitEvent(st, e) })(h)
	}
	d.StreamWriteValue32 = func(h cuda.Stream, at cuda.Pointer, value uint32) cuda.Result {
		return on("StreamWriteValue32", needsContext, func(c *call, st *stream) cuda.Result { return c.streamWriteValue32(st, at, value) })(h)
	}
	d.StreamWaitValue32 = func(h cuda.Stream, at cuda.Pointer, value uint32, flags cuda.WaitFlags) cuda.Result {
		return on("StreamWaitValue32", needsContext, func(c *call, st *stream) cuda.Result { return c.streamWaitValue32(st, at, value, flags) })(h)
	}
	d.MemcpyAsync = func(dst, src cuda.Pointer, bytes int, h cuda.Stream) cuda.Result {
		return on("MemcpyAsync", needsContext, func(c *call, st *stream) cuda.Result { return c.memcpyAsync(dst, src, bytes, st) })(h)
	}
	d.MemsetD8Async = func(dst cuda.Pointer, value uint8, count int, h cuda.Stream) cuda.Result {
		return on("MemsetD8Async", needsContext, func(c *call, st *stream) cuda.Result { return c.memsetAsync(dst, uint32(value), 1, count, st) })(h)
	}
	d.MemsetD32Async = func(dst cuda.Pointer, value uint32, count int, h cuda.Stream) cuda.Result {
		return on("MemsetD32Async", needsContext, func(c *call, st *stream) cuda.Result { return c.memsetAsync(dst, value, 4, count, st) })(h)
	}
	launch := func(function string, ahead bool) func(f cuda.Function, blocks, threads, shared uint32, h cuda.Stream, args unsafe.Pointer) cuda.Result {
		return func(f cuda.Function, blocks, threads, shared uint32, h cuda.Stream, args unsafe.Pointer) cuda.Result {
			return on(function, needsContext, func(c *call, st *stream) cuda.Result {
				return c.launchKernel(f, grid{blocks, threads, shared}, st, args, ahead)
			})(h)
		}
	}
	d.LaunchKernel, d.LaunchAhead = launch("LaunchKernel", false), launch("LaunchAhead", true)
	d.GraphLaunch = func(g cuda.GraphExec, h cuda.Stream) cuda.Result {
		return on("GraphLaunch", needsContext, func(c *call, st *stream) cuda.Result { return c.graphLaunch(g, st) })(h)
	}
	d.GraphLaunchOutside = func(g cuda.GraphExec, h cuda.Stream) (bool, cuda.Result) {
		status, _, r := d.StreamGetCaptureInfo(h)
		if r != cuda.Success || status != cuda.CaptureNone {
			return status != cuda.CaptureNone, r
		}
		return false, d.GraphLaunch(g, h)
	}
	d.StreamBeginCapture = func(h cuda.Stream, m cuda.CaptureMode) cuda.Result {
		return on("StreamBeginCapture", needsContext, func(c *call, st *stream) cuda.Result { return c.streamBeginCapture(st, m) })(h)
	}
}

func (p *Process) bindCapture(d *cuda.Driver) {
	d.StreamEndCapture = func(h cuda.Stream) (cuda.Graph, cuda.Result) {
		return get(p, "StreamEndCapture", needsContext, func(c *call) (cuda.Graph, cuda.Result) { return c.streamEndCapture(h) })
	}
	d.StreamGetCaptureInfo = func(h cuda.Stream) (status cuda.CaptureStatus, id uint64, r cuda.Result) {
		r = p.do("StreamGetCaptureInfo", needsContext|stepless, func(c *call) cuda.Result {
			var r cuda.Result
			status, id, r = c.streamGetCaptureInfo(h)
			return r
		})
		return status, id, r
	}
	d.ThreadExchangeStreamCaptureMode = func(m cuda.CaptureMode) (cuda.CaptureMode, cuda.Result) {
		return get(p, "ThreadExchangeStreamCaptureMode", stepless, func(c *call) (cuda.CaptureMode, cuda.Result) { return c.exchangeCaptureMode(m) })
	}
	d.GraphInstantiate = func(g cuda.Graph) (cuda.GraphExec, cuda.Result) {
		return get(p, "GraphInstantiate", needsContext, func(c *call) (cuda.GraphExec, cuda.Result) { return c.graphInstantiate(g) })
	}
	d.GraphGetNodes = func(g cuda.Graph) (cuda.GraphNode, cuda.Result) {
		return get(p, "GraphGetNodes", needsContext, func(c *call) (cuda.GraphNode, cuda.Result) { return c.graphGetNodes(g) })
	}
	d.GraphExecKernelNodeSetParams = func(e cuda.GraphExec, n cuda.GraphNode, f cuda.Function, blocks, threads, shared uint32, args unsafe.Pointer) cuda.Result {
		return p.do("GraphExecKernelNodeSetParams", needsContext, func(c *call) cuda.Result {
			return c.graphExecKernelNodeSetParams(e, n, f, grid{blocks, threads, shared}, args)
		})
	}
	d.GraphExecDestroy = func(g cuda.GraphExec) cuda.Result {
		return p.do("GraphExecDestroy", needsContext, func(c *call) cuda.Result { return c.graphExecDestroy(g) })
	}
	d.GraphDestroy = func(g cuda.Graph) cuda.Result {
		return p.do("GraphDestroy", needsContext, func(c *call) cuda.Result { return c.graphDestroy(g) })
	}
}

func (p *Process) bindEvents(d *cuda.Driver) {
	d.EventCreate = func(flags cuda.EventFlags) (cuda.Event, cuda.Result) {
		return get(p, "EventCreate", needsContext, func(c *call) (cuda.Event, cuda.Result) { return c.eventCreate(flags) })
	}
	d.EventDestroy = func(e cuda.Event) cuda.Result {
		return p.do("EventDestroy", needsContext, func(c *call) cuda.Result { return c.eventDestroy(e) })
	}
	d.EventRecord = func(e cuda.Event, s cuda.Stream) cuda.Result {
		return p.do("EventRecord", needsContext, func(c *call) cuda.Result { return c.eventRecord(e, s) })
	}
	d.EventQuery = func(e cuda.Event) cuda.Result {
		return p.do("EventQuery", needsContext|breaksCapture, func(c *call) cuda.Result { return c.eventQuery(e) })
	}
	d.EventElapsedTime = func(start, end cuda.Event) (float32, cuda.Result) {
		return get(p, "EventElapsedTime", needsContext, func(c *call) (float32, cuda.Result) { return c.eventElapsedTime(start, end) })
	}
}

func (p *Process) bindMemory(d *cuda.Driver) {
	d.MemAlloc = func(bytes int) (cuda.Pointer, cuda.Result) {
		return get(p, "MemAlloc", needsContext|breaksCapture, func(c *call) (cuda.Pointer, cuda.Result) { return c.memAlloc(bytes) })
	}
	d.MemFree = func(at cuda.Pointer) cuda.Result {
		return p.do("MemFree", needsContext|breaksCapture, func(c *call) cuda.Result { return c.memFree(at) })
	}
	d.MemGetInfo = func() (free, total uint64, r cuda.Result) {
		r = p.do("MemGetInfo", needsContext, func(c *call) cuda.Result {
			var r cuda.Result
			free, total, r = c.memGetInfo()
			return r
		})
		return free, total, r
	}
	d.PointerGetAttribute = func(a cuda.PointerAttribute, at cuda.Pointer) (uint64, cuda.Result) {
		return get(p, "PointerGetAttribute", stepless, func(c *call) (uint64, cuda.Result) { return c.pointerGetAttribute(a, at) })
	}
	d.IpcGetMemHandle = func(at cuda.Pointer) (cuda.IPCHandle, cuda.Result) {
		return get(p, "IpcGetMemHandle", needsContext, func(c *call) (cuda.IPCHandle, cuda.Result) { return c.ipcGetMemHandle(at) })
	}
	d.IpcOpenMemHandle = func(h *cuda.IPCHandle, flags cuda.IPCFlags) (cuda.Pointer, cuda.Result) {
		return get(p, "IpcOpenMemHandle", needsContext, func(c *call) (cuda.Pointer, cuda.Result) { return c.ipcOpenMemHandle(h, flags) })
	}
	d.IpcCloseMemHandle = func(at cuda.Pointer) cuda.Result {
		return p.do("IpcCloseMemHandle", needsContext, func(c *call) cuda.Result { return c.ipcCloseMemHandle(at) })
	}
}

func (p *Process) bindHost(d *cuda.Driver) {
	d.MemHostAlloc = func(bytes int, flags cuda.HostFlags) (unsafe.Pointer, cuda.Result) {
		return get(p, "MemHostAlloc", needsContext|breaksCapture, func(c *call) (unsafe.Pointer, cuda.Result) { return c.memHostAlloc(bytes, flags) })
	}
	d.MemFreeHost = func(at unsafe.Pointer) cuda.Result {
		return p.do("MemFreeHost", needsContext|breaksCapture, func(c *call) cuda.Result { return c.memFreeHost(at) })
	}
	d.MemHostRegister = func(at unsafe.Pointer, bytes int, flags cuda.HostFlags) cuda.Result {
		return p.do("MemHostRegister", needsContext|breaksCapture, func(c *call) cuda.Result { return c.memHostRegister(at, bytes, flags) })
	}
	d.MemHostUnregister = func(at unsafe.Pointer) cuda.Result {
		return p.do("MemHostUnregister", needsContext|breaksCapture, func(c *call) cuda.Result { return c.memHostUnregister(at) })
	}
	d.MemHostGetDevicePointer = func(at unsafe.Pointer) (cuda.Pointer, cuda.Result) {
		return get(p, "MemHostGetDevicePointer", needsContext, func(c *call) (cuda.Pointer, cuda.Result) { return c.memHostGetDevicePointer(at) })
	}
}

func (p *Process) bindVirtual(d *cuda.Driver) {
	d.MemGetAllocationGranularity = func(id cuda.DeviceID) (int, cuda.Result) {
		return get(p, "MemGetAllocationGranularity", 0, func(c *call) (int, cuda.Result) { return c.memGetAllocationGranularity(id) })
	}
	d.MemCreate = func(bytes int, id cuda.DeviceID) (cuda.Allocation, cuda.Result) {
		return get(p, "MemCreate", 0, func(c *call) (cuda.Allocation, cuda.Result) { return c.memCreate(bytes, id) })
	}
	d.MemRelease = func(a cuda.Allocation) cuda.Result {
		return p.do("MemRelease", 0, func(c *call) cuda.Result { return c.memRelease(a) })
	}
	d.MemAddressReserve = func(bytes int) (cuda.Pointer, cuda.Result) {
		return get(p, "MemAddressReserve", 0, func(c *call) (cuda.Pointer, cuda.Result) { return c.memAddressReserve(bytes) })
	}
	d.MemAddressFree = func(at cuda.Pointer, bytes int) cuda.Result {
		return p.do("MemAddressFree", 0, func(c *call) cuda.Result { return c.memAddressFree(at, bytes) })
	}
	d.MemMap = func(at cuda.Pointer, bytes int, a cuda.Allocation) cuda.Result {
		return p.do("MemMap", 0, func(c *call) cuda.Result { return c.memMap(at, bytes, a) })
	}
	d.MemUnmap = func(at cuda.Pointer, bytes int) cuda.Result {
		return p.do("MemUnmap", 0, func(c *call) cuda.Result { return c.memUnmap(at, bytes) })
	}
	d.MemSetAccess = func(at cuda.Pointer, bytes int, id cuda.DeviceID) cuda.Result {
		return p.do("MemSetAccess", 0, func(c *call) cuda.Result { return c.memSetAccess(at, bytes, id) })
	}
	d.MemExportToShareableHandle = func(a cuda.Allocation) (int, cuda.Result) {
		return get(p, "MemExportToShareableHandle", 0, func(c *call) (int, cuda.Result) { return c.memExportToShareableHandle(a) })
	}
	d.MemImportFromShareableHandle = func(fd int) (cuda.Allocation, cuda.Result) {
		return get(p, "MemImportFromShareableHandle", 0, func(c *call) (cuda.Allocation, cuda.Result) { return c.memImportFromShareableHandle(fd) })
	}
}

func (p *Process) bindModules(d *cuda.Driver) {
	d.ModuleLoadDataEx = func(image []byte) (m cuda.Module, log string, r cuda.Result) {
		r = p.do("ModuleLoadDataEx", needsContext|breaksCapture, func(c *call) cuda.Result {
			var r cuda.Result
			m, log, r = c.moduleLoadDataEx(image)
			return r
		})
		return m, log, r
	}
	d.ModuleUnload = func(m cuda.Module) cuda.Result {
		return p.do("ModuleUnload", needsContext|breaksCapture, func(c *call) cuda.Result { return c.moduleUnload(m) })
	}
	d.ModuleGetFunction = func(m cuda.Module, name string) (cuda.Function, cuda.Result) {
		return get(p, "ModuleGetFunction", needsContext, func(c *call) (cuda.Function, cuda.Result) { return c.moduleGetFunction(m, name) })
	}
	d.FuncGetAttribute = func(_ cuda.FunctionAttribute, f cuda.Function) (int, cuda.Result) {
		return get(p, "FuncGetAttribute", needsContext|breaksCapture, func(c *call) (int, cuda.Result) { return 0, c.funcLoad(f) })
	}
	d.FuncLoad = func(f cuda.Function) cuda.Result {
		return p.do("FuncLoad", needsContext|breaksCapture, func(c *call) cuda.Result { return c.funcLoad(f) })
	}
}
