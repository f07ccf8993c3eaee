//go:build !unix

package pg

// pipe would be a named pipe; this system has none with a path.
type pipe struct{ path string }

func openPipe(h *failureHandler) *pipe {
	if h.config.Recorder.DumpPipe != "" {
		h.log.Warn("no pipe to ask for dumps on this system", "group", h.name, "rank", h.rank)
	}
	return nil
}

func (p *pipe) asks() bool { return false }

func (p *pipe) close() {}
