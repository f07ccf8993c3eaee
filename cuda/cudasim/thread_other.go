//go:build !linux && !windows

package cudasim

import (
	"bytes"
	"runtime"
	"strconv"
)

// threadID names the calling goroutine, which stands in for its thread: callers lock the two together.
func threadID() uint64 {
	var b [64]byte
	line := b[:runtime.Stack(b[:], false)] // "goroutine 7 [running]:"
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		panic("cudasim: a stack without a goroutine: " + string(line))
	}
	id, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		panic("cudasim: a stack without a goroutine: " + string(line))
	}
	return id
}
