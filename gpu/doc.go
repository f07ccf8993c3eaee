// Package gpu runs a rank on a GPU of its own by one call. Run picks and opens the device, forms the group, and gives all back in
// the order that GPUs need. Programs that manage devices, streams and memory themselves use packages cuda, pg and cuda/peer, of which
// this package is made. NewDevices is for one process with several GPUs, which needs no group.
//
// Invariants:
//
//  1. A group is closed before memory that its tensors name is given back.
//  2. Run gives back all that it has opened, also after an error or a panic of the program.
//
// The package enqueues no work of its own but copies.
package gpu
