//go:build !linux

package parity

const sharedMemory = false
