//go:build !unix

package cudasim

func takePages(bytes int) []byte { return make([]byte, bytes) }
func emptyPages([]byte) bool     { return false }
func givePages([]byte)           {}
