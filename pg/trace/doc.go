// Package trace reads the flight recorders' dumps of all ranks of a job, ours or PyTorch's, and says in plain words who is missing,
// who called something else than the others, and who is slow; then it draws what happened.
//
// Ranks are those of the default group throughout, also where an operation's name has ranks of its group.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Collectives are compared by group and sequence number, and only among ranks that have recorded them: what a ring has lost
//     counts as done. Sends and receives are compared by their two ends.
//  2. A rank whose dump is missing is named, and the others are compared without it.
//  3. The first line says what came first: what others wait for comes before those who wait.
//  4. Clocks of ranks are never compared as they are, but by when the ranks saw the same collectives end.
//  5. The page that WriteHTML writes needs nothing else: no file, no network.
//
// The package reads no files and never changes a dump.
package trace
