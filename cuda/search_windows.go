//go:build amd64 || arm64

package cuda

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// search loads nvcuda.dll from the system's directory, the one place where drivers install it.
func search() (*library, error) {
	const name = "nvcuda.dll"
	dll, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if err != nil {
		return nil, fmt.Errorf("cuda: %w: searched %s in the system directory: %w", ErrNoDriver, name, err)
	}
	path := name
	var wide [windows.MAX_PATH]uint16
	if n, err := windows.GetModuleFileName(dll, &wide[0], uint32(len(wide))); err == nil {
		path = windows.UTF16ToString(wide[:n])
	}
	return resolve(path, func(name string) uintptr {
		at, err := windows.GetProcAddress(dll, name)
		if err != nil {
			return 0
		}
		return at
	})
}
