// Package backend is the seam between a group of package pg and the code that carries out its operations on one kind of
// device. A backend implements Backend, and beside it those of the smaller interfaces that it can: Grouper, Tracker, Timed,
// Stager, Reader, Registrar. It registers an Opener from an init function; a program gets it by importing its package.
//
// Invariants:
//
//  1. Run is called in the order of the group's operations, by one goroutine at a time. All other methods may be called from
//     any goroutine.
//  2. Arguments of a Call are checked, and its tensors are contiguous and on the backend's device.
//  3. A backend knows its group only as a Host. It never imports package pg.
//  4. After Abort nothing that is pending waits for a peer. After Close the backend holds no memory, stream or goroutine.
package backend
