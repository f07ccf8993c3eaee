// Package peermem reads memory of other processes of this host, where the system lets it: on Linux, by process_vm_readv.
//
// A process that lets its memory be read makes a Token, and tells its peers the token's bytes and address. With every read the reader
// reads the token after it. So what it has read is of that process, though the system may give a dead process's number to another. And
// it was read before the process took its memory back, which clears the token first.
package peermem
