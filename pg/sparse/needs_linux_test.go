package sparse_test

import "testing"

// needs says whether this system has a transport.
func needs(testing.TB, string) {}
