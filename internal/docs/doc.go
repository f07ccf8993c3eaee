// Package docs holds the documents of the repository to the code. Its tests read every Markdown file outside testdata.
//
// Invariants:
//
//  1. A relative link leads to a file of the repository, and its fragment to a heading there.
//  2. A Go block compiles. A block that is no whole file may name what the test's table of fragments declares.
//  3. A command parses. The programs of the repository parse their own flags; go test's packages, tests and flags exist.
//  4. A name between backquotes that begins with a package of the repository is one that the package exports. So is a variable
//     that begins with COLLIGO_.
//  5. The report that docs/debugging.md quotes of its worked case is what the command prints, but for times.
//  6. A file of the folder deploy parses, and ranks that have its environment form a group.
//  7. The commands of README, getting started and debugging run. A table names the commands that do not, and why. The
//     documents quote what these commands print.
//
// A command stands on an indented line, in a block of language sh, or between backquotes. Output stands in a block of language
// text. The package has no code but its tests.
package docs
