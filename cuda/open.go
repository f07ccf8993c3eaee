package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// ErrNoDriver is wrapped by the error of Open where there is no driver.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrUnsupported is the error of Open on systems for which NVIDIA makes no driver. It wraps ErrNoDriver.
var ErrUnsupported = fmt.Errorf("cuda: %w: none exists for this operating system and processor", ErrNoDriver)

// Open loads and initializes the driver on the first call, and returns the same table, or the same error, ever after.
func Open() (*Driver, error) { return opened() }

var opened = sync.OnceValues(func() (*Driver, error) {
	l, err := search()
	if err != nil {
		return nil, err
	}
	d := l.driver()
	d.Blocking = os.Getenv("CUDA_LAUNCH_BLOCKING") == "1"
	if err := d.check("cuInit", -1, d.Init()); err != nil {
		return nil, fmt.Errorf("%w (driver %s)", err, d.Path)
	}
	if err := repairSignals(); err != nil {
		return nil, err
	}
	return d, nil
})
