package streamorder

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// Failure is how a group ends on a device: its first error, and the abort flag, at which kernels look while they wait.
type Failure struct {
	first  atomic.Pointer[error]
	raised atomic.Bool
	mu     sync.RWMutex // held while the flag is used, and alone while it is given back
	page   *cuda.Host   // the flag is its first word; nil if no kernel looks
}

// Look makes kernels look at the first word of a page. Free gives the page back.
func (f *Failure) Look(page *cuda.Host) { f.page = page }

// Set keeps the first error. It reports whether this was the first.
func (f *Failure) Set(cause error) bool { return f.first.CompareAndSwap(nil, &cause) }

// Err returns the first error, nil if nothing has failed.
func (f *Failure) Err() error {
	if p := f.first.Load(); p != nil {
		return *p
	}
	return nil
}

// Peaceful reports whether nothing has failed, though the group may be closed.
func (f *Failure) Peaceful() bool {
	err := f.Err()
	return err == nil || err == colligo.ErrClosed
}

// Raise sets the abort flag: kernels stop waiting, and no result counts any more.
func (f *Failure) Raise() {
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.raised.Store(true)
	if f.page != nil {
		atomic.StoreUint32(f.flag(), 1)
	}
}

// Raised reports whether the abort flag is set. A kernel that finds a mistake sets it, too. It may be asked after Free.
func (f *Failure) Raised() bool {
	if f.raised.Load() {
		return true
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.page != nil && atomic.LoadUint32(f.flag()) != 0
}

func (f *Failure) flag() *uint32 { return (*uint32)(unsafe.Pointer(&f.page.Bytes[0])) }

// Free gives the page of the flag back.
func (f *Failure) Free(t cuda.Thread) error {
	raised := f.Raised()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.page == nil {
		return nil
	}
	page := f.page
	f.page = nil
	f.raised.Store(raised)
	return t.FreeHost(page)
}
