//go:build race

package pg_test

// underRace says that processes start and run several times slower.
const underRace = true
