// Package filestore is a store in a file that all ranks see, in the format of PyTorch's FileStore. It needs no server,
// and a file system whose locks hold between the ranks: a local one, or NFS 4.
//
// The format: an append-only log of records. A record is the key's length (4 bytes, little-endian), the key, the value's
// length (4 bytes) and the value. The last record of a key wins. A user's key is stored with a leading slash; a key that
// starts with "-" takes back the key that follows. "refcount/" counts the ranks that have the file open, and "cleanup/" the
// ranks that have closed it, both as decimal text.
//
// Invariants:
//
//  1. Every call opens the file, locks it (shared to read, exclusive to write), reads what is new, works and lets go.
//     No lock is held while a call waits for a key: it looks again every 10 ms.
//  2. A record's lengths are checked against the file and the limits before memory is taken. A record that is cut off or too
//     long is an error that names path and offset. Records before it stay readable to ranks that have read them.
//  3. A write that fails half way is taken back. A process that dies half way leaves a cut-off record: see 2.
//  4. A file belongs to one run. Open refuses one that a run of the same size has filled or finished; every later call
//     refuses a file that was replaced.
//
// There are no queues: PyTorch's FileStore has none either.
package filestore
