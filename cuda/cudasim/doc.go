// Package cudasim is the CUDA driver's table (cuda.Driver) without a GPU. Devices with memory, streams, events, graphs and
// kernels live in one Go process. They run in an order that a seed picks, under a race detector.
//
//	sim := cudasim.New(cudasim.Config{Devices: 2, Seed: seed})
//	defer cudasim.Check(t, sim)
//	sim.Register("copy", unsafe.Sizeof(CopyArgs{}), model)
//	device, err := sim.Driver().Device(0)
//
// How it runs. Every stream is a queue of operations. One goroutine, the executor, takes one step at a time. It picks one of
// the operations that may begin and the kernel blocks that may go on. It runs that one until it is done, or yields. Kernels
// are coroutines, so kernels of several devices that wait for one another's flags make progress together. Calls of the table
// that have to do with operations let the executor take a few steps, or none, before they return. A call that blocks lets it
// run until the call's condition holds. Until the next step is a kernel's, the call itself takes the executor's place.
// So a test with one host goroutine runs the same way each time for one seed.
//
// Invariants:
//
//  1. Everything of a Sim is guarded by one lock. A goroutine holds it for each step that it takes. Calls that wait for another
//     goroutine's steps do not hold it.
//  2. Order between operations comes from streams, events, stream writes and waits, flags, and lines that prove themselves. It
//     also comes from operations that the host has seen completed. It never comes from the order in which the executor happened
//     to run them. Two accesses that nothing orders, one of them a write, are a race under every seed.
//  3. Addresses are never given twice, so use after free and access out of bounds are always found. Memory that the
//     host takes away before it knows that its process's use of it is over is a race, under every seed.
//     Memory that is freed while another process has it mapped by IPC is a fault, until a process is killed.
//  4. Nothing hangs. When nothing moves and a call waits, every waiting call fails after Config.Patience, and every context
//     with operations. If the host polls, or does nothing, while operations stand still or yield for ever, the contexts fail a little
//     later. The report says what each stream, block and call waits for.
//  5. Results are the driver's. Where cudasim is stricter than a real driver, the function's comment says so.
//
// Memory order. A kernel's block is one actor, or each of its teams is one. Plain accesses of actors are ordered by release
// and acquire (StoreRelease32, LoadAcquire32, Add32, Fence), as in the PTX memory model. StoreVolatile32 alone orders
// nothing that the block wrote since its last fence. Four bytes of LL data are ordered by their own flag. The flag also
// orders the LL data that its sender had consumed before, but no plain access. The same holds for LL128 lines and for lines
// of the sentinel protocol. Lines that a receiver has cleared count when it has read them, or has passed a fence.
//
// Kernels begin and end with a fence. A kernel that is launched ahead of its predecessor's end is in no order with the predecessor up to
// Block.AwaitBefore. Loads of flags on devices return the oldest value that this allows, and waits end with the oldest value that
// fits. So they order the least that they order on any device.
//
// Go's race detector. Its marks //go:norace are on what a step does: functions on clocks, shadows, words, and blocks. Step after
// step they look at what one lock guards, and would cost the tests of other packages three fourths of their time. The detector
// stays on the calls of the table, which take the lock, and on copies to and from the host.
//
// Not simulated: time, priorities, compression, child graphs, memory shared between two host mappings of one file.
//
// The package never calls a real driver, reads no environment, and starts one goroutine, which Close ends.
package cudasim
