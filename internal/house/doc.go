// Package house holds the rules of the repository as tests: which package may import which, how long files and functions
// may be, what every package says about itself, and what nobody writes.
//
// Invariants:
//
//  1. A rule is a table and a test that walks the whole tree, all modules and platforms included.
//  2. An exception is named in the rule's table with its reason.
//  3. A new package fails the tests until it has its line in the table of arrows.
//
// The package has no code but its tests, which never run another program.
package house
