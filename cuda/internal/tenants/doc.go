// Package tenants is for groups of a process that share a device. They share the modules of kernels. And no call has the driver wait for
// the device while a kernel there waits for another rank of the process.
//
// Some calls wait until the device is idle, with a lock of the context held: cuMemFree, cuMemFreeHost and cuModuleLoadDataEx. No kernel
// that is launched after cuFuncLoad begins before all that ran at that time is done. Where a kernel waits for a peer whose own kernel is
// launched later by this process, nothing moves any more. Allocations, events, copies and memsets wait for nothing. A new stream does at
// times. (Driver 580.159 on an H100; TestGPUWaits in package cuda tries each call.)
//
// Invariants:
//
//  1. While Alone calls its function, no other tenant has anything on the device or enqueues anything, unless Alone gave up.
//  2. Tenants never wait for one another. Alone tries again, and gives up after Limit. After a failure Await waits longer
//     for ranks of the same group, which the group's own goroutines release.
//  3. A module is on a device once, as long as a tenant has it.
//
// The package knows no operation and no group. It enqueues nothing, and asks tenants what they have pending.
package tenants
