// Package storetest is the conformance suite that every store passes, and the leak check of the stores' tests.
//
// Invariants:
//
//  1. Run asks only what package store promises; what one format adds is tested beside that format.
//  2. Every subtest opens a store of its own, so one that breaks its store does not disturb the next.
//  3. A store without queues passes if every queue call says ErrNotSupported.
//
// The package never looks inside a store.
package storetest
