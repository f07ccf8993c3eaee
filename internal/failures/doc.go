// Package failures makes the failures that users meet when they start and run a job, with real processes. It holds what each
// rank says of them.
//
// Invariants:
//
//  1. A rank that waits has said for what after 6 s: the first line comes after 5 s.
//  2. At the end each rank names the cause, or the rank that has it.
//
// The page docs/troubleshooting.md quotes them; go test ./internal/failures -rewrite writes it anew. The package has no code but
// its tests.
package failures
