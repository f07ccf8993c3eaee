package cudasim

import "golang.org/x/sys/unix"

// preferLargePages asks for pages that are cheaper to take. A kernel without them refuses, and nothing is lost.
func preferLargePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
