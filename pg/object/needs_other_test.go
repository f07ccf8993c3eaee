//go:build !linux

package object_test

import "testing"

// needs says whether this system has a transport.
func needs(t testing.TB, transport string) {
	if transport == "shm" {
		t.Skip("shm is for linux")
	}
}
