// Package object moves Go values between the ranks of a group, as tensors of bytes that a Codec writes and reads. Its
// functions are c10d's object collectives.
//
// All ranks of a group call the same function with the same codec, in the order of the group's other collectives. The type T
// may differ between ranks where the codec can read one as the other. Roots and peers are ranks of the group, not of the
// default group as in c10d.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Sizes that other ranks announce are held against Config.MaxObject before memory is taken for them. An announcement
//     beyond it ends the group, for the ranks are no longer in step.
//  2. If a rank cannot encode its value, every rank of the call gets an error, none waits for another, and the group goes
//     on.
//  3. Values travel by the group's public collectives, in the order and of the types that PyTorch's ranks expect. With
//     Pickle, both can be in one job.
//  4. Where OnDevice or Config.ObjectDevice names a device, the tensors travel on it. Its backend is a backend.Stager.
//
// The package keeps nothing between calls and opens no connection of its own.
package object
