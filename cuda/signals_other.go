//go:build !linux || !(amd64 || arm64)

package cuda

// repairSignals has nothing to do: no driver installs signal handlers here.
func repairSignals() error { return nil }
