// Package house holds the rules of the repository as tests. They say which package may import which, and how long files and
// functions may be. They say what every package tells of itself, and which words comments and names have.
//
// Invariants:
//
//  1. A rule is a table and a test that walks the whole tree, all modules and platforms included.
//  2. An exception is named in the rule's table with its reason.
//  3. Older code has things that new code must not have. Counts in testdata, by package, bound them and only fall:
//     go test ./internal/house -rewrite writes them anew, and a review sees the change.
//  4. A new package fails the tests until it has its line in the table of arrows.
//
// The package has no code but its tests, which never run another program.
package house
