// Package cuda calls the CUDA driver without cgo. The driver's functions are one table, Driver; Open fills it from the
// driver's library on first use, and package cudasim fills it without a GPU. Everything above the table (Device, Thread)
// works on either.
//
// A Device holds its GPU's primary context. The driver's current context belongs to an operating system thread, so calls
// that need one are methods of Thread, which Device.Enter returns:
//
//	t, err := device.Enter()
//	if err != nil {
//		return err
//	}
//	defer t.Leave()
//	err = t.Copy(dst, src, n, stream)
//
// Invariants:
//
//  1. Between Enter and Leave the goroutine is locked to its thread and the device's context is current there. Enter
//     costs one driver call when it already is. A context that another library made current is put back by Leave.
//  2. Launch, Copy, Set, Write32, Wait32, Record, WaitEvent, Enter and Leave allocate nothing.
//  3. Every kernel takes one parameter, a struct; the driver has copied it when Launch returns.
//  4. Handles (Stream, Event, Pointer ...) are the driver's own. They own nothing: the results of New and Alloc are given
//     back by hand.
//  5. Every failure is an *Error, or wraps one: function, number, name and the driver's own text.
//
// The package never reads the environment, never starts a goroutine, and loads nothing before Open is called.
package cuda
