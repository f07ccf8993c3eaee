// Package trace reads the flight recorders' dumps of all ranks of a job, ours or PyTorch's. It says in plain words which
// rank is missing, which called something else than the others, and which is slow. Then it draws what happened.
//
// Ranks are those of the default group throughout, also where an operation's name has ranks of its group.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Collectives are compared by group and sequence number, and only among ranks that have recorded them. An operation that
//     a ring has lost counts as done. Sends and receives are compared by their two ends.
//  2. A rank whose dump is missing is named, and the others are compared without it.
//  3. The first line says what came first. A rank for which others wait comes before the ranks that wait.
//  4. Clocks of ranks are never compared as they are, but by when the ranks saw the same collectives end.
//  5. Reasons that ranks give themselves for their group's failure are held against the records. Where both name the same
//     ranks it is one finding, and stands before a finding that only the records suggest. A rank that stopped because its
//     group had failed is not to blame.
//  6. The majority decides which rank calls something else than the others. Without a majority, it is decided by what the
//     group called before.
//  7. PyTorch records of Gloo's operations that they are over, not how they ended, and no messages. They count as done where every
//     rank has called them, else as given up.
//  8. The page that WriteHTML writes needs nothing else: no file, no network.
//  9. Memory and drawings are bounded by the number of operations, however long the texts are that they share. Long texts are
//     clipped, and drawings are written operation by operation.
//  10. Waits are drawn until their ranks gave up, as far as dumps tell, with empty slots where ranks are absent. Times in which
//     nothing begins or ends are left out of the page's axis if they are much longer than all else.
//  11. A finding that follows from another one stands under it.
//
// The package reads no files and never changes a dump.
package trace
