// Package devmem looks at the device memory of tensors for the backends in cuda/peer and cuda/staged. It tells whether a device
// can reach the memory, where its parts lie, and which values are there.
//
// Invariants:
//
//  1. A kernel is never given memory unless the driver has said that it is its device's or the host's. Touching other memory
//     ends the whole process's use of the device.
//  2. Reading a tensor never changes it, and never takes part in a capture.
//
// The package allocates device memory for Stage alone, and orders no operations.
package devmem
