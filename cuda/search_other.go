//go:build !(linux || windows) || !(amd64 || arm64)

package cuda

// search finds nothing: there is no driver for this system.
func search() (*library, error) { return nil, ErrUnsupported }
