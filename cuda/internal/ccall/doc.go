// Package ccall calls functions of C without cgo, and without allocating. The words of a call lie in a Frame.
//
// On Linux with amd64 a call takes the runtime's own way to C. Elsewhere, and with the tag noasm, it goes through purego, which does more
// around a call than the way to C itself takes. A function that returns at once is called by a shorter way yet (Word).
package ccall

// MaxWords is how many words a call can have. NCCL's identity of 128 bytes, handed by value behind six others, needs 22.
const MaxWords = 24
