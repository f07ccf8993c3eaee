//go:build !linux

package pgtest_test

var media = []string{"tcp"}
